/* runners/kubernetes/init/light.h — what the engine and `cairn-init --light` tell each other: in a
 * pod without a sidecar (runners/kubernetes/job/light.h) nothing else stands between them.
 *
 * The pod mounts two ConfigMaps at LIGHT_DIR: one holds the helper, the other the plans. The file
 * named after the pod's index (0 if it has none) is its plan, LIGHT_BYTES holds the content of all
 * files of all plans (parcel.h). The helper makes the workspace, runs the program and writes what
 * it left, if that is small, as the container's termination message: LIGHT_PREFIX and the result
 * in base64. Both are canonical binary records. The static helper shares this file. */
#ifndef CAIRN_RUNNERS_KUBERNETES_INIT_LIGHT_H
#define CAIRN_RUNNERS_KUBERNETES_INIT_LIGHT_H

#include "runners/kubernetes/init/parcel.h"
#include "runners/kubernetes/init/protocol.h"

#define LIGHT_DIR     "/etc/cairn"
#define LIGHT_INIT    LIGHT_DIR "/cairn-init"
#define LIGHT_BYTES   "bytes"
#define LIGHT_PREFIX  "light:"
#define LIGHT_MESSAGE 4096 /* the kubelet cuts off the end of a longer one */
/* Of the result, before base64. */
#define LIGHT_RESULT_MAX ((LIGHT_MESSAGE - (sizeof(LIGHT_PREFIX) - 1)) / 4 * 3)

struct light_plan {
	struct init_program *program; /* one */
	const char *const *outputs;   /* paths in the workspace that come back; NULL-terminated */
	const char *entries;          /* of the workspace, in LIGHT_BYTES */
	size_t n_entries;
};
void light_plan_encode(const struct init_program *program, const char *const *outputs,
		       const struct str *entries, struct str *out);
/* All points into `bytes`, which it modifies, or is freed by light_plan_deinit(). -1: malformed. */
int light_plan_decode(char *bytes, size_t len, struct light_plan *ret);
void light_plan_deinit(struct light_plan *p);

struct light_result {
	struct init_exit exit;
	bool too_large; /* what the program left doesn't fit: it is lost */
	/* Of the log, without secrets: how long it is, and its end, which may be all of it. */
	uint64_t log_bytes;
	const char *log;
	size_t n_log;
	const char *entries, *bytes; /* the outputs' */
	size_t n_entries, n_bytes;
};
/* Takes as much of the end of the log as there is room for. The outputs must fit (light_room()). */
void light_result_encode(const struct light_result *r, struct str *out);
size_t light_room(void); /* for entries and bytes */
/* All points into `bytes`. Hostile input; -1: malformed. */
int light_result_decode(const char *bytes, size_t len, struct light_result *ret);

/* The whole life of `cairn-init --light`: its exit status. */
struct init_surroundings;
struct init_light {
	const char *root, *plans, *message; /* "/cairn", LIGHT_DIR, "/dev/termination-log" */
	const struct init_surroundings *s;
};
int init_light(const struct init_light *l);

#endif
