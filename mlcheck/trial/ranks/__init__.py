"""Runs a program for real on several ranks of one machine, on the CPU, and keeps what each rank did."""
