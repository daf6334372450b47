"""One model over several ranks: rank 0 schedules and speaks HTTP, the others run the same engine after its orders."""
