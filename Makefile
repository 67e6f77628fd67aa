# Verbs only; what has logic is in scripts/.
.PHONY: help run test check build web sample clean

help: ## List the verbs
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile

run: ## Build, make a sample library if there is none, serve it, print the address
	@scripts/run.sh

test: ## Install what tests need, then run all of them
	@scripts/test.sh

check: ## Formatting and lints
	@scripts/check.sh

build: web ## The programs, optimised: target/release/headlong and headlong-lab
	cargo build --release --package headlong --package headlong-lab

web: ## The pages that are embedded in the binary
	@scripts/web.sh

sample: ## The sample library
	@scripts/sample.sh

clean: ## Remove what was built; the sample library stays
	cargo clean
	rm -rf web/dist web/node_modules
