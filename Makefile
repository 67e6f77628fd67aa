# Targets only; the logic is in scripts/.
.PHONY: help run test unit check deny coverage sanitize floods hostile-trial soak bench-smoke bench-hot build book packages image repo install-test systemd wheel sbom web sample clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

run: ## Build, create a sample library if there is none, serve it, print the address
	@scripts/run.sh

test: ## Install the tests' requirements, then run all tests
	@scripts/test.sh

unit: ## Checks and tests without root, apt or npm; no emulated disks, end-to-end or page tests
	@scripts/unit.sh

check: ## Formatting and lints
	@scripts/check.sh

deny: ## Licences, sources and advisories of dependencies; installs cargo-deny if needed
	@scripts/deny.sh

coverage: ## Line coverage of the code that operators run; installs cargo-llvm-cov if needed
	@scripts/coverage.sh

sanitize: ## Loom models; address, race and Miri checks of unsafe code: KINDS="address"
	@scripts/sanitize.sh $(KINDS)

floods: ## Latency of a viewer while a client floods the server: OPTIONS="--seconds 5 churn"
	@python3 scripts/floods.py $(OPTIONS)

hostile-trial: ## Attacks on a server with its defaults, beside viewers; 8 minutes: OPTIONS="churn"
	@python3 scripts/hostile_trial.py $(OPTIONS)

soak: ## Hours of viewers and faults, in pieces that add up (root): HOURS=0.25 OPTIONS="--out DIR"
	@python3 scripts/soak --hours $(or $(HOURS),0.25) $(OPTIONS)

bench-smoke: ## One short bench run on an emulated drive (root), and in virtual time
	@scripts/bench_smoke.sh

bench-hot: ## Cost of a byte from memory, compared with nginx (root): OPTIONS="--sizes 4K,8M"
	@scripts/bench_hot.sh $(OPTIONS)

build: ## The programs, optimised: target/release/headlong, headlong-lab, libheadlong.so: ARCH=arm64
	@scripts/build.sh

book: ## The documents as a searchable site in target/book; installs mdbook if needed
	@scripts/book.sh

packages: ## deb and rpm in target/packages: ARCH=arm64 FORMATS=rpm; of existing programs: BIN_DIR=target/debug
	@scripts/packages.sh

image: ## OCI image for podman and docker in target/image: ARCH=arm64 BIN_DIR=target/debug
	@scripts/image.sh

repo: ## Signed apt repository of the packages in target/repo: KEY=FINGERPRINT
	@scripts/repo.sh

install-test: ## Image, arm64 and apt repository, installed and started (root): CHECKS="image repo"
	@scripts/install_test.sh $(CHECKS)

systemd: ## The package under a real systemd (root; creates a Debian root): PACKAGE=FILE CHECKS="upgrade"
	@scripts/systemd.sh

wheel: ## The Python package in target/wheel/wheels, tested in a clean environment: PROFILE=dev SPARK=1
	@scripts/wheel.sh

sbom: ## Bill of materials of the programs, as CycloneDX in target/sbom; installs cargo-cyclonedx if needed
	@scripts/sbom.sh

web: ## The pages that are embedded in the binary
	@scripts/web.sh

sample: ## The sample library
	@scripts/sample.sh

clean: ## Remove build products; keep the sample library
	cargo clean
	rm -rf web/dist web/node_modules
