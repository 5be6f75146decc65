"""The program on several ranks: who meets whom, what each reads, and whether their weights agree."""
