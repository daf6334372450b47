"""`python -m benchmarks NAME` runs a bench; without a name it lists them."""

from benchmarks.cli import main

main()
