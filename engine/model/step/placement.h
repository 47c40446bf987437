/* engine/model/step/placement.h — where a step wants to run on a cluster, and with what beside
 * it: `spot`, `volumes`, resources by name, and the block `kubernetes`. Not part of the key,
 * except resources where the step says `key: {resources: true}`. The local runner ignores it.
 *
 *	resources: {cpu: 4, memory: 8Gi, gpu: 2, gpu_type: nvidia.com/mig-1g.10gb, shm: 2Gi,
 *	            disk: 20Gi, rdma/ib: 1}   # a name with a slash: an extended resource
 *	spot: true                          # {preempted: 3}: after that, other nodes
 *	volumes:
 *	  scratch: {claim: scratch-pvc, mount: /scratch, read_only: true, sub_path: a}
 *	      # a PersistentVolumeClaim
 *	  conf: {config_map: train-conf, mount: /etc/train}
 *	  keys: {secret: registry, mount: /keys}
 *	  tmp: {size: 10Gi, memory: true, mount: /fast}
 *	      # an emptyDir, of memory
 *	kubernetes:
 *	  as: pytorchjob                    # what owns the pods of a step over several nodes;
 *	                                    # or of one: rayjob, sparkapplication
 *	  workers: 4                        # of those two: the operator's pods beside the step's
 *	  node_selector: {disk: ssd}
 *	  tolerations: [{key: sku, operator: Equal, value: gpu, effect: NoSchedule}]
 *	  affinity: {…}                     # as in a pod
 *	  topology_spread: [{…}]            # topologySpreadConstraints
 *	  priority_class: high
 *	  runtime_class: nvidia
 *	  service_account: reader           # of the pod; its token is mounted only with token: true
 *	  queue: team-a                     # Kueue's LocalQueue
 *	  env_from: [wandb]                 # Secrets whose entries become environment variables
 *	  image_pull_secrets: [registry]    # to pull with, and to ask the registry about a tag
 *	  labels: {…}, annotations: {…}     # of the pods
 *	  pod_template: {spec: {…}}         # merged strategically, last
 *
 * All of it becomes one canonical JSON object, runner_attempt.placement_json: {"disk_bytes",
 * "extended": {name: n}, "gpu_type", "shm_bytes", "spot", "volumes"} and the keys of `kubernetes`
 * flat beside these, absent unless given; a volume's `size` is "size_bytes" there. cairn.yaml's
 * `kubernetes` takes the same keys for all steps (a step's own keys win), and those of struct
 *config.
 */
#ifndef CAIRN_MODEL_STEP_PLACEMENT_H
#define CAIRN_MODEL_STEP_PLACEMENT_H

#include "base/text/json.h"
#include "base/text/yaml.h"

struct doc; /* model/read.h: where errors are reported */

/* Reads the block `kubernetes` of a step or of cairn.yaml into `into` (an object). Keys in `others`
 * are left to the caller; unknown ones are reported. */
void placement_read_kubernetes(const struct doc *d, const struct yaml_node *n,
			       const char *const *others, size_t n_others, json_t *into);
void placement_read_volumes(const struct doc *d, const struct yaml_node *n, json_t *into);
/* Reads a key of `resources`: false unless it is gpu_type, shm, disk or a name with a slash. */
bool placement_read_resource(const struct doc *d, const struct yaml_node *key,
			     const struct yaml_node *value, json_t *into);
/* Removes what placement_read_resource() put there. */
void placement_drop_resources(json_t *placement);
/* "arm64", if its nodes are selected by their processor; else NULL. Borrowed. */
const char *placement_arch(const json_t *placement);
/* Whether `as` is a kind for a step with one node, beside which an operator makes `workers`. Only
 * the step itself names it. */
bool placement_kind_has_workers(const char *as);
/* Reports in a block `kubernetes` for several steps (of `where`) what only a step can say of
 * itself. */
void placement_check_shared(const struct doc *d, const struct yaml_node *n, const char *where);
/* The name of an object of the cluster: lower-case letters, digits, `-` and `.`. False after a
 * report. */
bool placement_read_name(const struct doc *d, const struct yaml_node *n, const char *what,
			 const char **ret);

#endif
