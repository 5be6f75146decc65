"""The vocabulary every part of mlcheck shares: rules, findings, results, reports. Standard library only."""
