"""What more than one API uses: a chat run, its deltas and usage, tools, reasoning, fields of requests."""
