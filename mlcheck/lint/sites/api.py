"""What PyTorch took away or is about to: a table, and the calls in a program that its rows are about."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.names import canonical
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites


class Row(NamedTuple):
    """A function, or with `argument` one of its keywords: since when it is deprecated and gone ("" = not yet)."""

    name: str
    argument: str
    deprecated: str
    removed: str
    instead: str


_SCHEDULERS = (
    *("StepLR", "MultiStepLR", "LambdaLR", "MultiplicativeLR", "ExponentialLR", "ConstantLR", "LinearLR", "CyclicLR"),
    *("CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR", "ReduceLROnPlateau", "PolynomialLR"),
)
_LOSSES = (
    *("CrossEntropyLoss", "MSELoss", "L1Loss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "SmoothL1Loss"),
    *("KLDivLoss", "PoissonNLLLoss", "SoftMarginLoss", "HingeEmbeddingLoss", "MultiMarginLoss", "TripletMarginLoss"),
    *("functional.cross_entropy", "functional.mse_loss", "functional.l1_loss", "functional.nll_loss"),
    *("functional.binary_cross_entropy", "functional.binary_cross_entropy_with_logits", "functional.kl_div"),
)
_OLD_ALGEBRA = {
    "gesv": "linalg.solve",
    "btrifact": "linalg.lu_factor",
    "btrisolve": "linalg.lu_solve",
    "potrf": "linalg.cholesky",
    "potri": "cholesky_inverse",
    "potrs": "cholesky_solve",
    "trtrs": "linalg.solve_triangular",
}
_INITS = (
    *("uniform", "normal", "constant", "eye", "dirac", "xavier_uniform", "xavier_normal", "kaiming_uniform"),
    *("kaiming_normal", "orthogonal"),
)

TABLE = (
    Row("torch.symeig", "", "1.9", "2.0", "torch.linalg.eigh"),
    Row("torch.solve", "", "1.9", "1.13", "torch.linalg.solve"),
    Row("torch.lstsq", "", "1.9", "1.13", "torch.linalg.lstsq"),
    Row("torch.eig", "", "1.9", "1.13", "torch.linalg.eig"),
    Row("torch.matrix_rank", "", "1.9", "1.13", "torch.linalg.matrix_rank"),
    Row("torch.rfft", "", "1.7", "1.8", "torch.fft.rfftn"),
    Row("torch.irfft", "", "1.7", "1.8", "torch.fft.irfftn"),
    *(Row(f"torch.{name}", "", "1.1", "1.2", f"torch.{instead}") for name, instead in _OLD_ALGEBRA.items()),
    Row("torch.ifft", "", "1.7", "1.8", "torch.fft.ifftn"),
    Row("torch.is_deterministic", "", "1.8", "1.11", "torch.are_deterministic_algorithms_enabled"),
    Row("torch.set_deterministic", "", "1.8", "1.11", "torch.use_deterministic_algorithms"),
    *(
        Row(f"torch.optim.lr_scheduler.{name}", "verbose", "2.2", "2.13", "print(scheduler.get_last_lr())")
        for name in _SCHEDULERS
    ),
    Row("torch.cholesky", "", "1.8", "", "torch.linalg.cholesky"),
    Row("torch.qr", "", "1.8", "", "torch.linalg.qr"),
    Row("torch.lu", "", "1.11", "", "torch.linalg.lu_factor"),
    Row("torch.triangular_solve", "", "1.11", "", "torch.linalg.solve_triangular"),
    Row("torch.chain_matmul", "", "1.8", "", "torch.linalg.multi_dot"),
    Row("torch.range", "", "0.2", "", "torch.arange"),
    Row("torch.set_default_tensor_type", "", "2.1", "", "torch.set_default_dtype"),
    Row("torch.nn.functional.upsample", "", "0.4", "", "torch.nn.functional.interpolate"),
    Row("torch.nn.utils.clip_grad_norm", "", "0.4", "", "torch.nn.utils.clip_grad_norm_"),
    Row("torch.ger", "", "1.8", "", "torch.outer"),
    Row("torch.svd", "", "1.9", "", "torch.linalg.svd"),
    Row("torch.lu_solve", "", "1.13", "", "torch.linalg.lu_solve"),
    Row("torch.nn.UpsamplingNearest2d", "", "0.4", "", 'torch.nn.Upsample(mode="nearest")'),
    Row("torch.nn.UpsamplingBilinear2d", "", "0.4", "", 'torch.nn.Upsample(mode="bilinear", align_corners=True)'),
    Row("torch.nn.functional.upsample_nearest", "", "0.4", "", "torch.nn.functional.interpolate"),
    Row("torch.nn.functional.upsample_bilinear", "", "0.4", "", "torch.nn.functional.interpolate"),
    Row("torch.nn.NLLLoss2d", "", "0.4", "", "torch.nn.NLLLoss"),
    Row("torch.cuda.amp.custom_fwd", "", "2.4", "", 'torch.amp.custom_fwd(device_type="cuda")'),
    Row("torch.cuda.amp.custom_bwd", "", "2.4", "", 'torch.amp.custom_bwd(device_type="cuda")'),
    Row("torch.cpu.amp.GradScaler", "", "2.4", "", 'torch.amp.GradScaler("cpu")'),
    Row("torch.nn.utils.weight_norm", "", "2.0", "", "torch.nn.utils.parametrizations.weight_norm"),
    Row("torch.testing.assert_allclose", "", "1.12", "", "torch.testing.assert_close"),
    Row("torch.backends.cuda.sdp_kernel", "", "2.3", "", "torch.nn.attention.sdpa_kernel"),
    Row("torch.cuda.memory_cached", "", "1.4", "", "torch.cuda.memory_reserved"),
    Row("torch.cuda.max_memory_cached", "", "1.4", "", "torch.cuda.max_memory_reserved"),
    Row("torch.cuda.amp.GradScaler", "", "2.4", "", 'torch.amp.GradScaler("cuda")'),
    Row("torch.cuda.amp.autocast", "", "2.4", "", 'torch.amp.autocast("cuda")'),
    Row("torch.cpu.amp.autocast", "", "2.4", "", 'torch.amp.autocast("cpu")'),
    *(Row(f"torch.nn.init.{name}", "", "0.4", "", f"torch.nn.init.{name}_") for name in _INITS),
    *(Row(f"torch.nn.{name}", "size_average", "0.4", "", "reduction") for name in _LOSSES),
    *(Row(f"torch.nn.{name}", "reduce", "0.4", "", "reduction") for name in _LOSSES),
)


def version(text: str) -> tuple[int, ...]:
    """`2.10.1+cpu` -> (2, 10)."""
    numbers = [part for part in text.partition("+")[0].split(".")[:2] if part.isdigit()]
    return tuple(int(number) for number in numbers)


def uses(sites: Sites, rows: tuple[Row, ...]) -> Iterator[tuple[Call, Row]]:
    """The calls that the rows are about, but for those that look first whether the function is there."""
    wanted = {canonical(row.name) for row in rows}
    for call in sites.calls(*sorted(wanted)):
        written = call.file.resolve(call.node.func, call.context)
        if _is_tried(call):
            continue
        for row in rows:
            if row.name == written or (row.name == call.name and row.argument):
                if not row.argument or row.argument in call.names():
                    yield call, row


def _is_tried(call: Call) -> bool:
    """Under `try`, or behind a question about the version or about the name."""
    for outer in call.context.outwards():
        if outer.kind == "try":
            return True
        if isinstance(outer.node, ast.If | ast.IfExp):
            test = ast.unparse(source(call.file, outer.node.test, outer)[0]).lower()
            if "hasattr" in test or "version" in test or "torch_" in test:
                return True
    return False
