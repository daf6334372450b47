"""What rows remember: keys and values, sliding windows, recurrent state. Data only; lengths live in `Batch`."""
