"""What rules of reinforcement learning share: log-probabilities of actions, advantages, entropies, returns."""
