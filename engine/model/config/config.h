/* engine/model/config/config.h — cairn.yaml at the project root: store, runner, limits, retention.
 * Precedence: flag, CAIRN_* variable, file, default. A relative path in the file is relative to
 * the project root, one in a variable to the working directory.
 *
 *	store: .cairn/store          # CAIRN_STORE: a directory, s3://bucket/prefix or
 *	                             # gs://bucket/prefix
 *	cache: read-write            # CAIRN_CACHE, for a shared store: read-only fetches but never
 *	                             # uploads, off uses only the directory
 *	cache_size: 200Gi            # limit of .cairn/store in front of a shared store; the least
 *	                             # recently used blobs are removed first
 *	store_options: {endpoint: https://s3.example.org, region: eu-1, profile: team, style: path,
 *	                ca: certs/ca.pem}   # anonymous: true: unsigned
 *	ignore: [.DS_Store, "*~"]    # names of files and directories to leave out of the
 *	                             # project's directories that are inputs or code
 *	reference_above: 1Gi         # larger inputs by URI are pinned and fetched when needed,
 *	                             # not copied into the store
 *	runner: local                # CAIRN_RUNNER: or kubernetes, or one of its `contexts`
 *	workspace: auto              # how local steps get inputs: as reflinks; else large ones
 *	                             # as mounts, else as links, else as copies. mount, link:
 *	                             # all so, or an error. copy: as reflinks, else as copies
 *	sandbox: strict              # steps see what they declare and the system, and nothing else
 *	                             # of this machine; `sandbox` of a step wins. Default: none
 *	network: none                # of steps on this machine: host (default), loopback (an own
 *	                             # one), none; `network` of a step wins
 *	audit: true                  # the first execution of each local step reports undeclared
 *	                             # reads, as `cairn run --audit` does
 *	salt: v2                     # part of every key: change it to start anew
 *	jobs: 8                      # CAIRN_JOBS: tasks at once; 0 or absent: one per cpu
 *	resources: {cpu: 8, memory: 32Gi, gpu: 1}   # what local tasks may use in all
 *	retention: {runs: 50, age: 90d}             # what `cairn store gc` keeps
 *	kubernetes:
 *	  context: lab               # which cluster; else what kubectl would take
 *	  namespace: ml
 *	  kubeconfig: conf/lab.yaml
 *	  image: registry.example/cairn:0.1          # Cairn's own, made by `cairn image`: for the
 *	                                             # sidecar and built-in steps
 *	  image_pull_policy: IfNotPresent            # or Always, Never
 *	  registries: ["registry.test:5000"]         # registries with plain HTTP
 *	  store_secret: cairn-store  # Secret whose entries (AWS_ACCESS_KEY_ID …) become the
 *	                             # sidecar's environment
 *	  store_account: cairn-store # or a service account that is bound to a cloud identity
 *	  store_ca: cairn-ca         # ConfigMap whose entry ca.crt verifies the store's
 *	                             # certificate
 *	  store_claim: shared        # PersistentVolumeClaim that holds the store, mounted at
 *	                             # `store`, which must be a directory
 *	  store_options: {endpoint: https://s3.example.org}   # if pods reach it at another address;
 *	                                                      # keys as above
 *	  secrets: cairn-secrets     # Secret that has the steps' secrets by name
 *	  cloud: gke                 # or eks, aks: what spot and GPU nodes are called there
 *	  jobs: 500                  # attempts on the cluster at once
 *	  array: 64                  # most pods of one Job, for tasks of a step that are ready
 *	                             # together; 1: one Job per task
 *	  sidecar: {cpu: 10m, memory: 96Mi}
 *	  cache: {host_path: /var/cache/cairn, size: 50Gi}   # what pods of a node have fetched is
 *	                             # kept there; or claim: NAME
 *	  ttl: 1d                    # a Job that wasn't deleted goes this long after its end
 *	  schedule_within: 15m       # a pod that gets no place (or no quota) fails as
 *	                             # `unschedulable`
 *	  image_within: 5m           # likewise for an image
 *	  gang_within: 10m           # all pods of a gang must run this long after the first does
 *	  lost_within: 30s           # after this, a pod that should have ended counts as lost
 *	  upload_within: 1m          # on top of a step's grace time, to upload logs and checkpoint
 *	                             # of a pod that must stop
 *	  save_within: 12h           # how long a step's end waits for an unreachable store
 *	  requests: {per_second: 20, burst: 30}      # to the API server
 *	  node_selector: {disk: ssd} # and the other keys of placement.h: for all steps; a step's
 *	                             # own keys win
 *	  contexts:                  # several clusters: `--on gpu` takes this one
 *	    gpu: {context: prod-gpu, namespace: ml}   # `context` is its name unless given; all
 *	                             # keys of this block, which has the others
 *	serve:
 *	  lease: cairn               # of several servers, only the holder of this Lease works
 *	  url: https://cairn.example.org   # CAIRN_SERVER: used by `run --detach`
 *	  project: fashion           # this project's name there
 *
 * CAIRN_DIR puts the state into another directory than .cairn/.
 */
#ifndef CAIRN_MODEL_CONFIG_CONFIG_H
#define CAIRN_MODEL_CONFIG_CONFIG_H

#include "base/diag.h"
#include "base/text/json.h"
#include "model/pipeline.h"

#define CONFIG_JOBS_MAX  100000
#define CONFIG_ARRAY_MAX 1024 /* as the runner has it */

/* How the cluster is reached; NULL, 0: not given. */
struct config_cluster_access {
	const char *context, *namespace_, *kubeconfig; /* kubeconfig is an absolute path */
	/* It lies in the project: the user didn't choose what it says. */
	bool kubeconfig_is_projects;
	uint32_t requests_per_second, requests_burst;
};

struct config_store_options {
	const char *endpoint, *region, *profile, *ca; /* NULL: not given; ca is an absolute path */
	const char *style;                            /* "auto" (default), "path" or "virtual" */
	bool anonymous;
};

/* How pods reach the store. */
struct config_pod_store {
	const char *secret, *account, *ca, *claim;
	struct config_store_options options; /* keys that aren't given: as for this machine */
};

/* 0: not given. */
struct config_sidecar {
	uint32_t cpu_milli;
	uint64_t memory_bytes;
};

struct config_node_cache {
	const char *host_path, *claim; /* one of them, or none */
	uint64_t bytes;                /* 0: not given */
};

/* How long a stage of a pod may take. */
struct config_within {
	int64_t schedule_ns, image_ns, gang_ns, lost_ns, upload_ns, save_ns;
};

/* `kubernetes` of cairn.yaml. */
struct config_kubernetes {
	struct config_cluster_access access;
	const char *image, *image_pull_policy;
	struct config_pod_store store;
	const char *secrets, *cloud;
	const char *const *registries; /* NULL-terminated, never NULL: "host:port" */
	uint32_t jobs, array;          /* 0: not given */
	struct config_sidecar sidecar;
	struct config_node_cache cache;
	struct config_within within;
	int64_t ttl_ns;
	json_t *placement; /* the keys of placement.h, an object; goes with the config */
};

struct config_store {
	/* Absolute path of a directory, or an s3://, gs:// URI. Default <state_dir>/store. */
	const char *uri;
	/* Absolute path of the directory in front of a shared store: <state_dir>/store. */
	const char *local;
	const char *cache;    /* "read-write" (default), "read-only" or "off" */
	uint64_t cache_bytes; /* 0: any number */
	struct config_store_options options;
};

struct config_cluster {
	const char *name;
	struct config_kubernetes kubernetes;
};

/* `kubernetes.contexts`: clusters by name. What one of them doesn't say is as in the block. */
struct config_clusters {
	const struct config_cluster *v;
	size_t n;
	const char *chosen;               /* NULL: none of these, but what the block says */
	struct config_kubernetes unnamed; /* what the block says */
	json_t *placements;               /* holds all of them */
};

/* NULL: not given; the URL has no slash at its end. */
struct config_serve {
	const char *lease, *url, *project;
};

/* Of all local tasks together. */
struct config_limits {
	uint32_t jobs;         /* 0: one a cpu */
	uint32_t cpu_milli;    /* 0: what the machine has */
	uint64_t memory_bytes; /* likewise */
	int32_t gpus;          /* -1: find out */
};

/* What gc keeps. */
struct config_retention {
	uint64_t runs; /* 0: all */
	int64_t ns;    /* 0: for ever */
};

struct config {
	const char *project_root; /* absolute */
	const char *state_dir;    /* absolute: <root>/.cairn, or CAIRN_DIR */
	const char *uses_dir;     /* <state_dir>/uses: what steps use from elsewhere */
	struct config_store store;
	const char *const *ignore; /* NULL-terminated, never NULL: as content_put_options has it */
	/* Bytes of an input by URI above which it is referenced, not copied. Default 1 GiB. */
	uint64_t reference_above;
	const char *runner;    /* "local" (default) or "kubernetes"; see `clusters`, too */
	const char *workspace; /* "auto" (default), "mount", "link" or "copy" */
	struct step_sandbox sandbox;
	bool audit; /* the first execution of each step reports undeclared reads */
	struct config_kubernetes kubernetes; /* of the chosen cluster */
	struct config_clusters clusters;
	struct config_serve serve;
	const char *salt; /* project salt of every key, or NULL */
	struct config_limits limits;
	struct config_retention retention;
	struct arena *arena;
};

/* Names that are never content of a project: its state, and git's at the top
 * (content_put_options.exclude). */
extern const char *const config_not_content[];

/* The directory of a root (model/external.h); NULL is the project. The caller frees it. */
char *config_root(const struct config *c, const char *root);
/* A path of the model that may begin with the name of a root, on disk. The caller frees it. */
char *config_path(const struct config *c, const char *path);

/* start_dir: where the search for the project root begins (cairn.yaml, .cairn or .git upward).
 * ERR_NOT_FOUND when there is none: the message names `cairn init`. ERR_INVALID: all errors of the
 * file and the variables are in `diags`. */
int config_load(const char *start_dir, struct diag_list *diags, struct config **ret,
		struct err *err);
/* "http://HOST[:PORT][/PATH]", or https, as the beginning of requests: without a slash at the end.
 * NULL for anything else; `err` says what it must be. */
const char *config_server_url(struct arena *arena, const char *text, struct err *err);
/* Where tasks run: "local", "kubernetes" or the name of a cluster. ERR_USAGE: there is no such one;
 * the message lists all. */
int config_choose_runner(struct config *c, const char *name, struct err *err);
/* Whether a run uses results that the store has already. With `cache: off` it does only on this
 * machine, where it looks in its own directory; pods have only the shared store. */
bool config_takes_results(const struct config *c);
/* Whether the store is a bucket, not a directory. */
bool config_store_is_shared(const struct config *c);
/* The directory on this machine that holds the store's content, in front of a shared one or itself.
 */
const char *config_store_dir(const struct config *c);
void config_free(struct config *c); /* NULL is fine */

#endif
