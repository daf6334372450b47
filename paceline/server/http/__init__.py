"""HTTP and ASGI: bodies, limits, keys, hosts, errors, request ids, streams, draining. Knows no API."""
