"""Lines that were written for one thing, copied for another, and changed in all places but one."""
