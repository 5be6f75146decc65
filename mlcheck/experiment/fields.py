"""The fields of an experiment config (Determined's expconf v0): kinds, ranges, choices, what must be there."""

from __future__ import annotations

from mlcheck.experiment.field_rules import (
    both_or_none,
    grid_has_counts,
    mounted_once,
    names_or_pattern,
    not_both,
    ordered,
    pod_is_left_alone,
    storage_inside_host,
)
from mlcheck.experiment.searchers import HYPERPARAMETER, LENGTH, SEARCHER
from mlcheck.experiment.shape import (
    FLAG,
    NUMBER,
    SIZE,
    TEXT,
    WHOLE,
    Anything,
    Either,
    Fields,
    Kind,
    Many,
    Named,
    Rule,
    Scalar,
)

TEXT_ = Scalar(TEXT)
FLAG_ = Scalar(FLAG)
WHOLE_ = Scalar(WHOLE)
COUNT = Scalar(WHOLE, least=0)
SOME = Scalar(WHOLE, least=1)
TEXTS = Many(TEXT_)

_SAVED = {"save_experiment_best": COUNT, "save_trial_best": COUNT, "save_trial_latest": COUNT}
_PREFIX = Scalar(TEXT, fits=r"^(?!.*(?:^|/)\.\.(?:/|$))", must="must not lead out with `..`")


def _storage(kind: str, known: dict[str, Scalar], want: str, rule: Rule | None = None) -> Fields:
    """One kind of checkpoint storage: its own fields and those of all, of which `want` must be there in the end."""
    fields = {"type": Scalar(TEXT, choices=(kind,)), **known, **_SAVED}
    return Fields(fields, needs=("type",), wants=(want,), rules=(rule,) if rule is not None else ())


_SHARED = ("host_path", "storage_path", "propagation", "container_path", "checkpoint_path", "tensorboard_path")
_KEYS = ("access_key", "bucket", "secret_key", "endpoint_url")
_ACCOUNT = ("container", "connection_string", "account_url", "credential")
SHARED_FS = _storage("shared_fs", dict.fromkeys(_SHARED, TEXT_), "host_path", storage_inside_host)
DIRECTORY = _storage("directory", {"container_path": TEXT_}, "container_path")
S3 = _storage("s3", {**dict.fromkeys(_KEYS, TEXT_), "prefix": _PREFIX}, "bucket")
GCS = _storage("gcs", {"bucket": TEXT_, "prefix": _PREFIX}, "bucket")
AZURE = _storage("azure", dict.fromkeys(_ACCOUNT, TEXT_), "container", not_both("credential", "connection_string"))
_STORAGES = {"shared_fs": SHARED_FS, "directory": DIRECTORY, "s3": S3, "gcs": GCS, "azure": AZURE}
CHECKPOINT_STORAGE = Kind(
    "type",
    _STORAGES,
    Fields(
        {**{name: Anything() for shape in _STORAGES.values() for name in shape.known}, "user": Anything(), **_SAVED}
    ),
)

BIND_MOUNT = Fields(
    {
        "host_path": Scalar(TEXT, fits="^/", must="must be an absolute path"),
        "container_path": Scalar(TEXT, fits=r"^(?!\.$)", must="must not be `.`"),
        "read_only": FLAG_,
        "propagation": TEXT_,
    },
    needs=("host_path", "container_path"),
)
_DEVICE = Fields(
    {"host_path": TEXT_, "container_path": TEXT_, "mode": TEXT_},
    needs=("host_path", "container_path"),
)
DEVICES = Many(Either(Scalar(TEXT, fits="^/[^:]*:/[^:]*(:[rwm]*)?", must="must be `/host:/container`"), None, _DEVICE))

_IMAGE = "an image, or a mapping of cpu, cuda and rocm to images"
_VARIABLES = "a list of `NAME=value`, or a mapping of cpu, cuda and rocm to such lists"
ENVIRONMENT_IMAGE = Either(TEXT_, None, Fields(dict.fromkeys(("cpu", "cuda", "rocm", "gpu"), TEXT_)), _IMAGE)
ENVIRONMENT_VARIABLES = Either(None, TEXTS, Fields(dict.fromkeys(("cpu", "cuda", "rocm", "gpu"), TEXTS)), _VARIABLES)
_PROXY_PORT = Fields(
    {"proxy_port": Scalar(NUMBER), "proxy_tcp": FLAG_, "unauthenticated": FLAG_, "default_service_id": FLAG_},
    needs=("proxy_port",),
)
_REGISTRY = ("username", "password", "auth", "email", "serveraddress", "identitytoken", "registrytoken")
ENVIRONMENT = Fields(
    {
        "image": ENVIRONMENT_IMAGE,
        "environment_variables": ENVIRONMENT_VARIABLES,
        "proxy_ports": Many(_PROXY_PORT),
        "ports": Named(WHOLE_),
        "force_pull_image": FLAG_,
        "registry_auth": Fields(dict.fromkeys(_REGISTRY, TEXT_)),
        "add_capabilities": TEXTS,
        "drop_capabilities": TEXTS,
        "pod_spec": Fields({}, others=True, rules=(pod_is_left_alone,)),
    }
)

RESOURCES = Fields(
    {
        "agent_label": TEXT_,
        "devices": DEVICES,
        "is_single_node": FLAG_,
        "max_slots": WHOLE_,
        "native_parallel": FLAG_,
        "priority": Scalar(WHOLE, least=1, most=99),
        "resource_pool": TEXT_,
        "shm_size": Scalar(
            SIZE, fits=r"^([0-9]*[.])?[0-9]+ ?(([kmgtpKMGTP]([iI]?[bB])?)|[bB])?$", must="must be a size like `4G`"
        ),
        "slots": WHOLE_,
        "slots_per_trial": COUNT,
        "weight": Scalar(NUMBER),
    }
)
OPTIMIZATIONS = Fields(
    {
        "aggregation_frequency": SOME,
        "auto_tune_tensor_fusion": FLAG_,
        "average_aggregated_gradients": FLAG_,
        "average_training_metrics": FLAG_,
        "gradient_compression": FLAG_,
        "grad_updates_size_file": TEXT_,
        "mixed_precision": Scalar(TEXT, choices=("O0", "O1", "O2", "O3")),
        "tensor_fusion_cycle_time": COUNT,
        "tensor_fusion_threshold": COUNT,
    }
)
PROFILING = Fields(
    {"enabled": FLAG_, "begin_on_batch": COUNT, "end_after_batch": COUNT, "sync_timings": FLAG_},
    rules=(ordered("begin_on_batch", "end_after_batch", equal=True),),
)
_ACTIONS = ("cancel_retries", "exclude_node")
LOG_ACTION = Either(
    Scalar(TEXT, choices=_ACTIONS),
    None,
    Fields({"type": Scalar(TEXT, choices=_ACTIONS)}, needs=("type",)),
    "an action's name",
)
LOG_POLICY = Fields({"name": TEXT_, "pattern": TEXT_, "action": LOG_ACTION}, rules=(names_or_pattern,))
SECURITY = Fields({"kerberos": Fields({"config_file": TEXT_}, needs=("config_file",))})
_PACHYDERM = {
    "pachd": Fields({"host": TEXT_, "port": WHOLE_}, needs=("host", "port")),
    "proxy": Fields({"scheme": TEXT_, "host": TEXT_, "port": WHOLE_}, needs=("scheme", "host", "port")),
    "dataset": Fields(
        dict.fromkeys(("project", "repo", "commit", "branch", "token"), TEXT_),
        needs=("project", "repo", "commit", "branch", "token"),
    ),
}
INTEGRATIONS = Fields(
    {
        "pachyderm": Fields(_PACHYDERM, needs=tuple(_PACHYDERM)),
        "webhooks": Fields({"webhook_id": Many(WHOLE_), "webhook_name": TEXTS, "exclude": FLAG_}),
    }
)

EXPERIMENT = Fields(
    {
        "bind_mounts": Many(BIND_MOUNT),
        "checkpoint_policy": Scalar(TEXT, choices=("best", "all", "none")),
        "checkpoint_storage": CHECKPOINT_STORAGE,
        "data": Anything(mapping=True),
        "integrations": INTEGRATIONS,
        "data_layer": Anything(mapping=True),
        "debug": FLAG_,
        "description": TEXT_,
        "entrypoint": Either(TEXT_, TEXTS, None, "a command or a list of its words"),
        "environment": ENVIRONMENT,
        "hyperparameters": Named(HYPERPARAMETER),
        "labels": TEXTS,
        "log_policies": Many(LOG_POLICY),
        "retention_policy": Fields({"log_retention_days": Scalar(WHOLE, least=-1, most=32767)}),
        "max_restarts": COUNT,
        "min_checkpoint_period": LENGTH,
        "min_validation_period": LENGTH,
        "name": TEXT_,
        "optimizations": OPTIMIZATIONS,
        "pbs": Fields({"slots_per_node": SOME, "pbsbatch_args": TEXTS}),
        "perform_initial_validation": FLAG_,
        "preemption_timeout": WHOLE_,
        "profiling": PROFILING,
        "project": TEXT_,
        "records_per_epoch": WHOLE_,
        "reproducibility": Fields({"experiment_seed": COUNT}),
        "resources": RESOURCES,
        "scheduling_unit": SOME,
        "searcher": SEARCHER,
        "security": SECURITY,
        "slurm": Fields({"slots_per_node": SOME, "gpu_type": TEXT_, "sbatch_args": TEXTS}),
        "tensorboard_storage": Anything(mapping=True),
        "workspace": TEXT_,
    },
    wants=("checkpoint_storage", "name", "hyperparameters", "reproducibility", "searcher"),
    rules=(grid_has_counts, mounted_once, both_or_none("workspace", "project")),
    removed={
        "batches_per_step": "write `scheduling_unit`: steps were removed in 0.13",
        "internal": "take it out",
    },
)
