"""Several models behind one address. The front has keys, limits and the list of models; each model has a process.

    app            the front's application and process
    routes         what the front answers itself: lists of models, status, metrics, load and unload
    proxy          a request on its way to a model's process and back
    pool           which models are loaded, loading or unloaded, and why; who makes room for whom
    worker_process one model's process, as the front sees it
    worker         the same process from inside
    client         HTTP/1.1 over a Unix socket
    catalog        which models there are, by all their names, and the settings of each
    machine        the memory that all models share

Nothing here imports MLX: the front stays small and answers at once.
"""
