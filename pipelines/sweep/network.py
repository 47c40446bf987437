"""A network with one hidden layer, over lists. Put one of PyTorch in its place when you have it."""

import math
import random


def sigmoid(z):
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, z))))


class Network:
    def __init__(self, width, seed):
        rng = random.Random(seed)
        self.hidden = [[rng.gauss(0, 2) for _ in range(3)] for _ in range(width)]
        self.out = [rng.gauss(0, 0.5) for _ in range(width + 1)]

    def forward(self, x, y):
        """What the hidden units say, and how likely label 1 is."""
        units = [math.tanh(a * x + b * y + c) for a, b, c in self.hidden]
        return units, sigmoid(self.out[-1] + sum(w * u for w, u in zip(self.out, units)))

    def learn(self, x, y, label, lr):
        """One step of gradient descent on one point."""
        units, found = self.forward(x, y)
        error = lr * (found - label)
        for weights, w, u in zip(self.hidden, self.out, units):
            back = error * w * (1 - u * u)
            weights[0] -= back * x
            weights[1] -= back * y
            weights[2] -= back
        self.out = [w - error * u for w, u in zip(self.out, [*units, 1.0])]

    def accuracy(self, points):
        return sum((self.forward(x, y)[1] > 0.5) == label for x, y, label in points) / len(points)
