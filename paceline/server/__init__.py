"""HTTP in front of the service: parse, refuse, stream. Nothing here imports MLX.

Layers, each of which imports only those below it:

    app                                         the application and the process
    openai | anthropic | status, cache, absent  endpoints; openai and anthropic never import each other
    common                                      what more than one API uses
    backend, metrics                            what every route is given
    http                                        HTTP and ASGI, without any API
"""
