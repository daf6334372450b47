"""What rows remember: attention keys and values, sliding windows, recurrent state. Data only; lengths live in `Batch`."""
