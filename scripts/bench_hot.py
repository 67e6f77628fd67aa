#!/usr/bin/env python3
"""Cost of a byte from memory: headlong and a tuned nginx, measured alternately in one run.

Both serve the same files, all of them in memory, to the same client (h2load) over the loopback of a
separate network namespace. Each case is measured in --rounds pairs, and the result is the ratio of
each pair: absolute figures of a shared machine mean little. Needs root.
"""

import argparse
import itertools
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FILE_COUNT, FILE_BYTES = 16, 8 * MIB
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# nginx as its manual advises for files in memory; tcp_nopush stays off, because with bbr it triples
# the CPU time.
NGINX = """
worker_processes {workers}; daemon off; pid {dir}/nginx.pid; error_log {dir}/nginx.err;
events {{ worker_connections 20000; }}
http {{
    access_log {log}; sendfile on; sendfile_max_chunk 2m; tcp_nopush off;
    keepalive_requests 1000000000; keepalive_timeout 600;
    open_file_cache max=1000 inactive=600s; open_file_cache_valid 600s;
    client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;
    uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
    ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem; ssl_protocols TLSv1.3;
    server {{ listen 127.0.0.1:9001 reuseport; root {dir}/library; }}
    server {{ listen 127.0.0.1:9002 ssl http2 reuseport; root {dir}/library; }}
}}
"""
HEADLONG = """
roots = ["{dir}/library"]
listen = ["127.0.0.1:{port}"]
admin = "off"
memory = "{memory}"
[limits]
requests_per_connection_max = 1000000000
connections_max = 18000
connections_per_address_max = 18000
{tls}
[log]
access = "{log}"
format = "combined"
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--headlong", default="target/release/headlong", help="the program")
    parser.add_argument("--beside", metavar="PROGRAM", help="another headlong, measured alternately with both")
    parser.add_argument("--sizes", default="4K,64K,512K,8M", help="ranges; 8M and more are whole files")
    parser.add_argument("--connections", default="1,50,500")
    parser.add_argument("--protocols", default="http", help="http, https, h2 (HTTP/2 over TLS)")
    parser.add_argument("--logs", default="off", help="off, on")
    parser.add_argument("--congestion", default="reno", help="one that the kernel allows: reno, bbr")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="length of each measurement")
    parser.add_argument("--json", metavar="FILE", help="write every measurement to this file")
    return parser.parse_args()


def size_of(text):
    return int(text[:-1]) * {"K": KIB, "M": MIB, "G": GIB}[text[-1]]


def threads_of(pid):
    """The process and its children."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [pid] + [int(child) for child in file.read().split()]


def processor_seconds(pid):
    ticks = 0
    for one in threads_of(pid):
        with open(f"/proc/{one}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.running = []

    def start(self, command):
        with open(f"{self.folder}/{os.path.basename(command[0])}.out", "ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        self.running.append(process)
        return process.pid

    def stop(self):
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running = []

    def prepare(self, sizes):
        library = f"{self.folder}/library"
        os.mkdir(library)
        for number in range(FILE_COUNT):
            with open(f"{library}/f{number}.mp4", "wb") as file:
                file.write(os.urandom(FILE_BYTES))
        largest = max(sizes)
        if largest > FILE_BYTES:
            with open(f"{library}/large.mp4", "wb") as file:
                block = os.urandom(16 * MIB)
                for _ in range(largest // len(block)):
                    file.write(block)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", f"{self.folder}/key.pem",
             "-out", f"{self.folder}/cert.pem"], check=True, capture_output=True)

    def serve(self, log, largest):
        """Starts the servers; returns (name, pid, port by protocol)."""
        nginx_log = f"{self.folder}/nginx.log" if log == "on" else "off"
        with open(f"{self.folder}/nginx.conf", "w", encoding="ascii") as file:
            file.write(NGINX.format(dir=self.folder, workers=os.cpu_count(), log=nginx_log))
        nginx = self.start(["nginx", "-c", f"{self.folder}/nginx.conf"])
        peers = [("nginx", {"http": (nginx, 9001), "https": (nginx, 9002), "h2": (nginx, 9002)})]
        # An eighth of the memory is for copies to sockets, and all files must fit into that.
        memory = f"{12 * max(largest, FILE_COUNT * FILE_BYTES) // MIB}MiB"
        peers.append(self.serve_headlong("headlong", self.options.headlong, (9003, 9004), memory, log))
        if self.options.beside:
            peers.append(self.serve_headlong("beside", self.options.beside, (9005, 9006), memory, log))
        time.sleep(2)
        # Every file is in memory, and cached as frequently requested, before the first measurement.
        protocols = self.options.protocols.split(",")
        for _, places in peers:
            for protocol in sorted({"http" if name == "http" else "https" for name in protocols}):
                self.load(protocol, places[protocol][1], FILE_BYTES, 8, None, requests=12 * FILE_COUNT)
        return peers

    def serve_headlong(self, called, program, ports, memory, log):
        pids = {}
        for name, port, tls in [(f"{called}-http", ports[0], False), (f"{called}-tls", ports[1], True)]:
            pair = f'[tls]\ncertificate = "{self.folder}/cert.pem"\nkey = "{self.folder}/key.pem"'
            config = f"{self.folder}/{name}.toml"
            headlong_log = f"{self.folder}/{name}.log" if log == "on" else "off"
            with open(config, "w", encoding="ascii") as file:
                file.write(HEADLONG.format(dir=self.folder, port=port, memory=memory,
                                           tls=pair if tls else "", log=headlong_log))
            pids[tls] = (self.start([program, "serve", "--config", config]), port)
        return (called, {"http": pids[False], "https": pids[True], "h2": pids[True]})

    def load(self, protocol, port, size, connections, seconds, requests=None):
        scheme = "http" if protocol == "http" else "https"
        names = ["large.mp4"] if size > FILE_BYTES else [f"f{n}.mp4" for n in range(FILE_COUNT)]
        urls = f"{self.folder}/urls"
        with open(urls, "w", encoding="ascii") as file:
            file.writelines(f"{scheme}://127.0.0.1:{port}/{name}\n" for name in names)
        command = ["h2load", "-i", urls, "-c", str(connections), "-t", "1"]
        command += ["-n", str(requests)] if requests else ["-D", f"{seconds * 1000:.0f}ms"]
        command += ["-m", "1"] + (["--h1"] if protocol != "h2" else [])
        if size < FILE_BYTES:
            command += ["-H", f"Range: bytes=0-{size - 1}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        sent = re.search(r"traffic: .*?\((\d+)\) total", done.stdout)
        if not sent:
            sys.exit(f"bench-hot: cannot parse h2load's output:\n{done.stdout}{done.stderr}")
        codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", done.stdout)
        good, *bad = (int(count) for count in codes.groups())
        return good, sum(bad), int(sent.group(1))

    def measure(self, peer, protocol, size, connections, seconds):
        name, places = peer
        pid, port = places[protocol]
        self.load(protocol, port, size, min(connections, 64), None,
                  requests=max(64, min(connections, 500), 4 if size > FILE_BYTES else 0))
        before, began = processor_seconds(pid), time.monotonic()
        good, failed, sent = self.load(protocol, port, size, connections, seconds)
        took, spent = time.monotonic() - began, processor_seconds(pid) - before
        if good == 0:
            sys.exit(f"bench-hot: {name} answered no request correctly; its output is in {self.folder}")
        return {"server": name, "requests": good, "failed": failed, "bytes": sent, "seconds": took,
                "processor_seconds": spent, "per_gb": spent / (sent / 1e9),
                "us_per_request": spent / good * 1e6, "bytes_per_second": sent / took}


def interval(ratios):
    """Geometric mean, and its 95 % interval after Student where there is more than one pair."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), None
    student = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}.get(len(logs), 2.2)
    half = student * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))


def set_congestion(name):
    try:
        with open("/proc/sys/net/ipv4/tcp_congestion_control", "w", encoding="ascii") as file:
            file.write(name)
    except OSError:
        sys.exit(f"bench-hot: --congestion {name}: not allowed in a network namespace; use one of "
                 "`sysctl net.ipv4.tcp_allowed_congestion_control`")


def in_namespace(options):
    set_congestion(options.congestion)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    sizes = [size_of(text) for text in options.sizes.split(",")]
    results = []
    folder = tempfile.mkdtemp(prefix="bench-hot-", dir="/var/tmp")
    # nginx's workers run as another user.
    os.chmod(folder, 0o755)
    bench = Bench(options, folder)
    try:
        bench.prepare(sizes)
        print(f"{'case':34}{'us/request':>20}{'CPU s/GB':>17}{'ratio [95 %]':>24}{'throughput':>12}")
        for log in options.logs.split(","):
            peers = bench.serve(log, max(sizes))
            cases = itertools.product(options.protocols.split(","), options.sizes.split(","),
                                      [int(count) for count in options.connections.split(",")])
            for protocol, text, connections in cases:
                pairs = []
                for number in range(options.rounds):
                    order = peers if number % 2 == 0 else peers[::-1]
                    pair = {peer[0]: bench.measure(peer, protocol, size_of(text), connections,
                                                   options.seconds) for peer in order}
                    pairs.append(pair)
                case = f"{protocol} {text} x{connections} log {log} {options.congestion}"
                results.append({"case": case, "pairs": pairs})
                show(case, pairs)
            bench.stop()
    finally:
        bench.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump(results, file, indent=1)


def show(case, pairs):
    def middle(server, what):
        return statistics.median(pair[server][what] for pair in pairs)

    ratio, bounds = interval([pair["headlong"]["per_gb"] / pair["nginx"]["per_gb"] for pair in pairs])
    faster, _ = interval([pair["headlong"]["bytes_per_second"] / pair["nginx"]["bytes_per_second"]
                          for pair in pairs])
    failed = {server: sum(pair[server]["failed"] for pair in pairs) for server in pairs[0]}
    failed = ", ".join(f"{server}: {count} failed" for server, count in failed.items() if count)
    bounds = f" [{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else ""
    per_request = f"{middle('headlong', 'us_per_request'):.1f} / {middle('nginx', 'us_per_request'):.1f}"
    per_gb = f"{middle('headlong', 'per_gb'):.3f} / {middle('nginx', 'per_gb'):.3f}"
    print(f"{case:34}{per_request:>20}{per_gb:>17}{ratio:>10.2f}{bounds:>14}{faster:>12.2f}"
          + (f"  {failed}" if failed else ""), flush=True)
    if "beside" in pairs[0]:
        change, _ = interval([pair["headlong"]["per_gb"] / pair["beside"]["per_gb"] for pair in pairs])
        print(f"{'':34}{middle('beside', 'us_per_request'):>20.1f}{middle('beside', 'per_gb'):>17.3f}"
              f"{change:>10.2f} of it", flush=True)


def main():
    options = arguments()
    if os.geteuid() != 0:
        sys.exit("bench-hot: a network namespace needs root: sudo make bench-hot")
    for tool in ["nginx", "h2load", "openssl", "unshare"]:
        if not shutil.which(tool):
            sys.exit(f"bench-hot: {tool} is missing; `scripts/setup.sh hot` installs it")
    if os.environ.get("BENCH_HOT_NAMESPACE") != "1":
        os.environ["BENCH_HOT_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    in_namespace(options)


if __name__ == "__main__":
    main()
