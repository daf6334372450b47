"""The tests mirror the package: what `paceline/cache/disk.py` promises is in `tests/cache/test_disk.py`.

What only several modules together can show (exactness, faults, memory, a whole server) is in `tests/integration`.
`tests/test_mirror.py` holds both to it.
"""
