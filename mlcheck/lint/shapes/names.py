"""Which functions, methods and layers keep, reduce or make a shape. Tables only."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Name -> the argument that its sizes start at.
FACTORIES = {"randn": 0, "rand": 0, "zeros": 0, "ones": 0, "empty": 0, "full": 0}
LIKE = _words(
    """tensor as_tensor from_numpy array asarray FloatTensor LongTensor DoubleTensor Tensor float32 float64 int64
    zeros_like ones_like randn_like rand_like empty_like full_like randint_like"""
)
REDUCTIONS = _words("sum mean std var prod max min median argmax argmin all any amax amin logsumexp nanmean")
SAME = _words(
    """float double half bfloat16 long int bool to cuda cpu clone detach contiguous numpy requires_grad_ type astype
    abs exp log log1p expm1 sqrt rsqrt relu relu_ sigmoid sigmoid_ tanh tanh_ softmax log_softmax logsigmoid softplus
    gelu elu leaky_relu silu clamp clamp_ clamp_min clip round floor ceil neg sign sin cos square type_as pin_memory
    masked_fill masked_fill_ nan_to_num dropout normalize cumsum flip roll copy zero_ fill_ uniform_ normal_
    fit_transform transform to_numpy"""
)
ELEMENTWISE = _words("add sub mul div add_ sub_ mul_ div_ eq ne gt lt ge le pow maximum minimum multiply")
SAME_LAYERS = tuple(
    _words(
        """ReLU LeakyReLU ELU GELU SiLU SELU CELU PReLU Tanh Sigmoid Softplus Softmax LogSoftmax LogSigmoid Hardtanh
        Hardsigmoid Hardswish Mish Identity Dropout AlphaDropout BatchNorm LayerNorm GroupNorm InstanceNorm"""
    )
)
