# A thin front door over the scripts.
SWIFT ?= swift
export SWIFT

.PHONY: build run test changed acceptance nightly lint format bench check clean

build:
	scripts/build

run:
	scripts/run

test:
	scripts/test

changed:
	scripts/test --changed

nightly:
	scripts/nightly

acceptance:
	scripts/test --only acceptance

lint:
	$(SWIFT) format lint --strict --parallel --recursive Sources Tests Package.swift

format:
	$(SWIFT) format --in-place --parallel --recursive Sources Tests Package.swift

bench:
	benchmarks/run

check:
	.ci/run

clean:
	rm -rf .build .build-address .build-thread .venv
