/* engine/pod/internal.h — the parts of the sidecar. Only the files of engine/pod include it.
 *
 * Directories that the program can write to are reached through descriptors that were opened before
 * it began, or by fs_open_beneath() without links. No full path is looked up again.
 */
#ifndef CAIRN_POD_INTERNAL_H
#define CAIRN_POD_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/mem.h"
#include "pod/pod.h"
#include "runners/kubernetes/init/protocol.h"
#include "runners/kubernetes/job/pod_spec.h"
#include "storage/content/content.h"

/* The checkpoint of one attempt. */
struct pod_checkpoint {
	uint64_t epoch, sequence;
	char *attempts;                /* including this one: "12 15 17" */
	char *continues;               /* without this one; NULL: it began without a checkpoint */
	VEC(struct content_id) others; /* what other nodes had saved when this attempt began */
	struct content_id saved;       /* the last saved tree, or NONE */
	bool superseded; /* another attempt has taken over: this one saves nothing any more */
};

struct pod_slot {
	const struct runner_attempt *a;
	const char *const *gang_env; /* for several nodes: what the launcher needs to know */
	int run_fd, w_fd;            /* POD_RUN/I, POD_ROOT/I/w */
	bool ended;                  /* its result is complete */
	bool saved;
	struct pod_result result;
	struct pod_checkpoint ck;
	struct series_tail *series; /* or NULL: nobody has looked yet */
};

enum pod_work { POD_LAYING_OUT, POD_SERVING };

struct pod {
	struct store *store;
	struct store *cache; /* while inputs are fetched, if the node has one; or NULL */
	int views_fd;        /* o.views_dir, or -1 */
	struct err no_views; /* why inputs can't be mounted out of it */
	/* The last ones that are there, and that have their content; attempts may share one. */
	uint32_t view_placed, view_filled;
	struct pod_options o; /* defaults filled in */
	const char *spec;
	struct arena *arena;
	struct runner_attempt *attempts;
	struct pod_slot *slots;
	size_t n;
	int root_fd, run_fd;
	bool resumed; /* the program may run already: an earlier sidecar put all inputs there */
	int alive_fd; /* POD_RUN/alive */
	pthread_t ticker, waiter;
	bool has_ticker, has_waiter;
	atomic_int work;   /* enum pod_work */
	atomic_bool knows; /* the slots are filled in */
	atomic_bool terminating, gone,
		done; /* SIGTERM came; the helper has ended; the threads must end */
	int wake;     /* eventfd: `terminating` or `gone` was set */
};

void pod_say(const struct pod *p, const char *fmt, ...) _printf_(2, 3);

/* Prints it, and makes the container not ready until the trouble is over (fmt NULL). */
void pod_trouble(const struct pod *p, const char *fmt, ...) _printf_(2, 3);

/* pod/stage.c: puts the programs into POD_BIN, reads the specification, lays out inputs. */
int pod_stage(struct pod *p, struct err *err);
int pod_put_programs(struct pod *p, struct err *err);
/* Opens the directories that an earlier sidecar made. */
int pod_reopen(struct pod *p, struct err *err);
int pod_read_spec(struct pod *p, struct err *err);

/* pod/cache.c: inputs by way of the node's cache. */
void pod_cache_open(struct pod *p);
/* Fills the place of an attempt's input `i`, which main has mounted. */
int pod_fill_input(struct pod *p, struct pod_slot *s, size_t i, struct err *err);
void pod_cache_close(struct pod *p); /* evicts what is too much */

/* pod/views.c: inputs that main mounts out of the node's cache. Before other threads start. */
void pod_views_open(struct pod *p);
void pod_views_renew(const struct pod *p); /* every few minutes: this pod lives */
/* Makes what main will mount as this input, before main is created. */
int pod_view_place(struct pod *p, const struct runner_input *in, struct err *err);
bool pod_view_is_complete(const struct pod *p, const struct runner_input *in);
int pod_view_fill(struct pod *p, const struct runner_input *in, struct err *err);
/* After the program, if an output leads through a link: brings mounted inputs into the workspace,
 * and removes the empty places of those that are volumes. */
int pod_views_bring_linked(struct pod *p, const struct pod_slot *s, struct err *err);
/* Removes this pod's, and what killed pods have left. */
void pod_views_close(struct pod *p);

/* pod/collect.c */
/* The program of this slot has ended as POD_RUN/I/exit says: stores everything that it left and
 * fills the result. */
void pod_collect(struct pod *p, struct pod_slot *s);
/* The container has ended without an exit file. */
void pod_collect_remains(struct pod *p, struct pod_slot *s);
int pod_tell_text(struct pod *p, const char *text,
		  struct err *err); /* a text instead of a result: why there is none */
int pod_tell(struct pod *p,
	     struct err *err); /* the results of all ended slots, as the termination message */

/* pod/checkpoint.c */
/* Lays the tree into `to`, a directory below the workspace; existing entries stay. */
int pod_lay_over(struct pod *p, struct pod_slot *s, const struct content_id *tree, int to,
		 struct err *err);
int pod_checkpoint_restore(struct pod *p, struct pod_slot *s, struct err *err);
/* 0: saved, or nothing new; 1: it changes too fast just now. */
int pod_checkpoint_save(struct pod *p, struct pod_slot *s, struct err *err);
void pod_checkpoint_deinit(struct pod_checkpoint *c);
/* pod/series.c: prints the newest numbers when they have changed. */
void pod_series_look(struct pod *p, struct pod_slot *s);
void pod_series_deinit(struct pod_slot *s);
/* pod/checkpoint.c: the state that a restarted sidecar needs. */
int pod_state_write(struct pod *p, struct err *err);
int pod_state_read(struct pod *p, struct err *err);

#endif
