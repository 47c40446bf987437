/* engine/pod/stage.c — before the program: the helper, the specification, and the program's inputs.
 *
 * The order (pod_stage()): programs into POD_BIN; the specification into attempts and slots; places
 * of all inputs, then the file `placed`, after which main's container may be created; the content;
 * the sidecar's state; the meeting of a gang's pods; and last the file `plan`, after which the
 * helper starts the programs.
 *
 * Invariants: what main mounts exists, with its kind, before `placed`; its content comes into the
 * same object later. `plan` is written only when everything before has succeeded. A failure belongs
 * to the slot where it happened (blame()); later slots weren't reached. A slot's directories are
 * emptied first, because an earlier sidecar may have died halfway.
 *
 * Threads: the sidecar's main thread; others may read the slots once `knows` is set. Not here:
 * collecting (collect.c), resolving names (gang.c), checkpoints (checkpoint.c).
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "base/os/fs.h"
#include "pod/gang.h"
#include "pod/internal.h"
#include "run/task/staging.h"

int pod_read_spec(struct pod *p, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct content_id id;
	struct digest digest;

	assert(!p->slots);
	if (str_has_prefix(p->spec, "sha256:")) {
		if (digest_parse(p->spec, &digest, err) < 0 ||
		    content_find(p->store, &digest, &id, err) < 0)
			return err_wrap(err, "the pod's specification");
	} else if (pod_content_read(p->spec, &id, err) < 0) {
		return err_wrap(err, "CAIRN_POD_SPEC");
	}
	if (content_read(p->store, &id, POD_SPEC_MAX, &text, err) < 0)
		return err_wrap(err, "the pod's specification");
	if (pod_spec_read(text.s ? text.s : "", text.len, p->o.index, p->arena, &p->attempts, &p->n,
			  err) < 0)
		return -1;
	if (p->attempts[0].on.gang.nodes <= 1)
		p->o.index = 0; /* it was the array's, and selected our attempts */
	p->slots = arena_alloc(p->arena, p->n * sizeof(*p->slots));
	for (size_t i = 0; i < p->n; i++) {
		struct pod_slot *s = &p->slots[i];

		s->a = &p->attempts[i];
		s->run_fd = s->w_fd = -1;
		s->result = (struct pod_result){ .attempt_id = s->a->id, .index = p->o.index };
	}
	atomic_store(&p->knows, true);
	return 0;
}

/* Directories. */

static int open_dir(int dir_fd, const char *name, int *ret, struct err *err)
{
	*ret = fs_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, false);
	return *ret < 0 ? err_errno(err, "cannot open %s", name) : 0;
}

/* Everybody gets access, because the program can be any user. */
static int make_dir(int dir_fd, const char *name, mode_t mode, int *ret, struct err *err)
{
	if (mkdirat(dir_fd, name, mode) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make %s", name);
	return open_dir(dir_fd, name, ret, err);
}

int pod_reopen(struct pod *p, struct err *err)
{
	for (size_t i = 0; i < p->n; i++) {
		_cleanup_(freep) char *w = xasprintf("%zu/w", i), *run = xasprintf("%zu", i);

		if (open_dir(p->root_fd, w, &p->slots[i].w_fd, err) < 0 ||
		    open_dir(p->run_fd, run, &p->slots[i].run_fd, err) < 0)
			return -1;
	}
	return 0;
}

/* The helper. */

static int put_program(int bin, const char *from, const char *name, struct err *err)
{
	_cleanup_(freep) char *temp = xasprintf(".%s", name);

	(void)unlinkat(bin, temp, 0);
	if (fs_copy_file_at(AT_FDCWD, from, bin, temp, 0755, err) < 0)
		return -1;
	return renameat(bin, temp, bin, name) < 0 ? err_errno(err, "cannot make %s", name) : 0;
}

int pod_put_programs(struct pod *p, struct err *err)
{
	_cleanup_(fd_closep) int bin = -1;

	if (make_dir(p->root_fd, "bin", 0755, &bin, err) < 0 ||
	    put_program(bin, p->o.init_program, "cairn-init", err) < 0)
		return -1;
	/* Only steps of several nodes need it. */
	if (access(p->o.launch_program, F_OK) < 0)
		return 0;
	return put_program(bin, p->o.launch_program, "cairn-launch", err);
}

/* The plan. */

/* As on the local runner: text is UTF-8, whatever the image sets. */
static const char *const *environment(struct pod *p, const struct pod_slot *s)
{
	const struct runner_attempt *a = s->a;
	VEC(const char *) v = { 0 };
	const char *const *kept;
	bool has_locale = false;

	for (const char *const *e = a->env; *e; e++) {
		has_locale |= str_has_prefix(*e, "LC_ALL=");
		VEC_PUSH(&v, *e);
	}
	for (const char *const *e = s->gang_env; e && *e; e++)
		VEC_PUSH(&v, *e);
	if (!has_locale)
		VEC_PUSH(&v, "LC_ALL=C.UTF-8");
	VEC_PUSH(&v, NULL);
	kept = arena_memdup(p->arena, v.v, v.n * sizeof(*v.v));
	VEC_FREE(&v);
	return kept;
}

static int write_plan(struct pod *p, struct err *err)
{
	_cleanup_(freep) struct init_program *v = xcalloc(p->n, sizeof(*v));
	_cleanup_(freep) char *bytes = NULL;
	size_t len;

	for (size_t i = 0; i < p->n; i++) {
		const struct runner_attempt *a = &p->attempts[i];

		v[i] = (struct init_program){
			.dir = arena_printf(p->arena, "%s/%zu/w", p->o.root, i),
			.tmp = arena_printf(p->arena, "%s/%zu/tmp", p->o.root, i),
			.argv = a->argv,
			.env = environment(p, &p->slots[i]),
			.redact = a->secrets,
			.timeout_ns = a->timeout_ns,
			.grace_ns = a->grace_ns,
			.forwards_signals = a->forwards_signals
		};
	}
	bytes = init_plan_encode(v, p->n, &len);
	return fs_write_atomic_at(p->run_fd, "plan", bytes, len, 0644, FS_WRITE_NO_SYNC, err);
}

/* Content. */

/* Makes a slot's directories and the mount points of main, of the right kind: they must exist
 * before main is created. A mount holds the object, so its content can come later. */
static int make_places(struct pod *p, size_t i, struct err *err)
{
	struct pod_slot *s = &p->slots[i];
	_cleanup_(fd_closep) int dir = -1, tmp = -1;
	char name[32];

	snprintf(name, sizeof(name), "%zu", i);
	/* A sidecar that died halfway may have left files. */
	if (fs_remove_tree_at(p->root_fd, name, err) < 0 ||
	    make_dir(p->root_fd, name, 0755, &dir, err) < 0 ||
	    make_dir(dir, "w", 0777, &s->w_fd, err) < 0 ||
	    make_dir(dir, "tmp", 01777, &tmp, err) < 0 ||
	    make_dir(p->run_fd, name, 0777, &s->run_fd, err) < 0)
		return -1;
	for (size_t k = 0; k < s->a->n_inputs; k++) {
		const struct runner_input *in = &s->a->inputs[k];
		bool is_dir = in->id.kind == CONTENT_TREE;
		/* Else by the runtime, as what it mounts there. */
		bool is_made = !in->volume && !in->view;
		_cleanup_(freep) char *parent = fs_dirname(in->path);
		_cleanup_(fd_closep) int at = -1, fd = -1;

		at = fs_make_beneath(s->w_fd, is_dir ? in->path : parent, 0777, err);
		if (at >= 0 && !is_dir && is_made)
			fd = openat(at, fs_basename(in->path),
				    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (at >= 0 && !is_dir && is_made && fd < 0)
			err_errno(err, "cannot make %s", in->path);
		if (at < 0 || (!is_dir && is_made && fd < 0) ||
		    (in->view && pod_view_place(p, in, err) < 0))
			return err_wrap(err, "making room for input `%s`", in->name);
	}
	return 0;
}

static int lay_out(struct pod *p, struct pod_slot *s, struct err *err)
{
	const struct runner_attempt *a = s->a;

	if (a->code && pod_lay_over(p, s, a->code, s->w_fd, err) < 0)
		return err_wrap(err, "laying out the code");
	for (size_t i = 0; i < a->n_inputs; i++)
		if (!a->inputs[i].volume && pod_fill_input(p, s, i, err) < 0)
			return err_wrap(err, "bringing input `%s`", a->inputs[i].name);
	if (staging_make_places(a, s->w_fd, 0777, err) < 0)
		return -1;
	return a->checkpoint_path ? pod_checkpoint_restore(p, s, err) : 0;
}

/* All. */

/* The current slot gets the failure; later ones weren't reached. */
static int blame(struct pod *p, size_t i, const struct err *e)
{
	p->slots[i].result.r.failure = FAILURE_STORE;
	p->slots[i].result.r.err = *e;
	p->slots[i].ended = true;
	return -1;
}

int pod_stage(struct pod *p, struct err *err)
{
	if (pod_put_programs(p, err) < 0)
		return err_wrap(err, "putting the helper where the program's container finds it");
	if (pod_read_spec(p, err) < 0)
		return -1;
	if (p->views_fd >= 0) /* a place may be a link to what the cache has */
		pod_cache_open(p);
	for (size_t i = 0; i < p->n; i++)
		if (make_places(p, i, err) < 0) {
			pod_cache_close(p);
			return blame(p, i, err);
		}
	if (fs_write_atomic_at(p->run_fd, "placed", "", 0, 0644, FS_WRITE_NO_SYNC, err) < 0) {
		pod_cache_close(p);
		return -1;
	}
	if (p->views_fd < 0)
		pod_cache_open(p);
	for (size_t i = 0; i < p->n; i++)
		if (lay_out(p, &p->slots[i], err) < 0) {
			pod_cache_close(p);
			return blame(p, i, err);
		}
	pod_cache_close(p);
	if (pod_state_write(p, err) < 0)
		return -1;
	/* Last, so that all pods of the gang fetch their inputs at the same time. SIGTERM ends the
	 * process (pod.c). */
	for (size_t i = 0; i < p->n; i++)
		if (pod_gang_meet(p->slots[i].a, getenv(POD_GANG_SERVICE), getenv(POD_GANG_INDEX),
				  NULL, p->arena, &p->slots[i].gang_env, err) < 0)
			return blame(p, i, err);
	if (write_plan(p, err) < 0)
		return -1;
	/* The fetched content is in the workspaces now; the cached copies may go. */
	return store_sync(p->store, err);
}
