/* runners/kubernetes/job/merge.h — strategic merge patch of a pod template, as kubectl's: maps are
 * merged, null deletes, lists that have a merge key (containers by name, env by name, volumes by
 * name, volumeMounts by mountPath, ports by containerPort, imagePullSecrets by name,
 * topologySpreadConstraints by topologyKey, hostAliases by ip …) are merged by it, others are
 * replaced; `$patch: replace | delete | merge` is honoured. Source: api-conventions and
 * strategic-merge-patch.md of kubernetes/community; patchMergeKey tags of k8s.io/api.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_JOB_MERGE_H
#define CAIRN_RUNNERS_KUBERNETES_JOB_MERGE_H

#include "base/err.h"
#include "base/text/json.h"

/* Changes `into` (an object: a PodTemplateSpec). ERR_INVALID names the wrong path in `patch`. */
int kube_merge_template(json_t *into, const json_t *patch, struct err *err);

#endif
