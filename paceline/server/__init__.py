"""HTTP in front of the service: parse, refuse, stream. Nothing here imports MLX.

Layers, each of which imports only those below it:

    app                                                  the application and the process
    openai | anthropic | ollama,                         endpoints, which never import each other
    status, loads, not_implemented
    common                                               what more than one API uses
    state                                                what every route is given
    backend, metrics                                     the service as HTTP sees it; what Prometheus reads
    http                                                 HTTP and ASGI, without any API
"""
