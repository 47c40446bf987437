/* runners/kubernetes/init/light.c — `cairn-init --light`: process 1 of a pod without a sidecar.
 *
 * It makes the workspace from the plan, runs the program, and packs what it left. A failure before
 * the program ends with INIT_EXIT_REFUSED. If the outputs don't fit, their place in the result says
 * so, and the helper ends with INIT_EXIT_UPLOAD: the engine makes another attempt, with a sidecar.
 *
 * No process of the program lives any more when its files are packed. One thread. */
#include "runners/kubernetes/init/light.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/crypto/base64.h"
#include "base/mem.h"
#include "runners/kubernetes/init/init.h"

#define FILE_MAX (2 * MIB) /* a ConfigMap has less */

_noreturn_ static void refuse(const char *what)
{
	/* Into the container's log, like the program's words. */
	dprintf(1, "cairn-init: %s: %s\n", what, strerrordesc_np(errno));
	_exit(INIT_EXIT_REFUSED);
}

static void read_plan_file(const struct init_light *l, const char *name, struct str *ret)
{
	_cleanup_(freep) char *path = xasprintf("%s/%s", l->plans, name);
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : 1;

	while (n > 0 && ret->len < FILE_MAX) {
		str_reserve(ret, 64 * KIB);
		n = read(fd, ret->s + ret->len, ret->cap - ret->len - 1);
		ret->len += (size_t)MAX(n, 0);
	}
	if (n != 0)
		refuse("the plan can't be read");
}

static int make_dir(int at, const char *name, mode_t mode)
{
	int fd = mkdirat(at, name, mode) < 0 && errno != EEXIST
			 ? -1
			 : openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || fchmod(fd, mode) < 0)
		refuse("the workspace can't be made");
	return fd;
}

/* As the sidecar makes them (engine/pod/stage.c). *ret_run: where the log is kept. */
static int make_workspace(const struct init_light *l, const struct light_plan *p,
			  const struct str *bytes, int *ret_run)
{
	_cleanup_(fd_closep) int root = open(l->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), dir = -1,
				 tmp = -1, run = -1;
	int w;

	if (root < 0)
		refuse("the workspace can't be made");
	dir = make_dir(root, "0", 0755);
	w = make_dir(dir, "w", 0777);
	tmp = make_dir(dir, "tmp", 01777);
	run = make_dir(root, "run", 0755);
	*ret_run = make_dir(run, "0", 0777);
	if (parcel_lay(w, p->entries, p->n_entries, bytes->s ? bytes->s : "", bytes->len) < 0)
		refuse("the inputs can't be laid out");
	return w;
}

/* 1: they don't fit. */
static int pack_outputs(const struct light_plan *p, int w, struct parcel *out)
{
	int r = 0;

	for (const char *const *path = p->outputs; *path && r == 0; path++) {
		r = parcel_add(out, w, *path);
		if (r < 0 && (errno == ENOENT || errno == ENOTDIR)) {
			/* The engine says what is there instead. */
			(void)parcel_add_names(out, w, *path);
			return 0;
		}
	}
	return r != 0;
}

/* Its last bytes, as many as may fit. */
static void read_log(int run, struct light_result *r, struct str *ret)
{
	_cleanup_(fd_closep) int fd = openat(run, "log", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	size_t n;
	ssize_t got;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	r->log_bytes = (uint64_t)st.st_size;
	n = (size_t)MIN(r->log_bytes, (uint64_t)LIGHT_RESULT_MAX);
	str_reserve(ret, n + 1);
	got = pread(fd, ret->s, n, st.st_size - (off_t)n);
	ret->len = got > 0 ? (size_t)got : 0;
	r->log = ret->s;
	r->n_log = ret->len;
}

static void tell(const struct init_light *l, const struct light_result *r)
{
	_cleanup_(str_deinit) struct str raw = { 0 }, text = { 0 };
	_cleanup_(fd_closep) int fd =
		open(l->message, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	light_result_encode(r, &raw);
	str_add(&text, LIGHT_PREFIX);
	base64_add(&text, raw.s, raw.len);
	if (fd < 0 || write(fd, text.s, text.len) != (ssize_t)text.len)
		dprintf(1, "cairn-init: %s can't be written\n", l->message);
}

int init_light(const struct init_light *l)
{
	const char *index = getenv("JOB_COMPLETION_INDEX");
	_cleanup_(str_deinit) struct str plan = { 0 }, bytes = { 0 }, content = { 0 }, log = { 0 };
	struct parcel outputs = { .bytes = &content, .max = light_room() };
	_cleanup_(fd_closep) int w = -1, run = -1;
	_cleanup_(freep) char *dir = NULL, *tmp = NULL;
	struct light_result r = { 0 };
	bool stopped = false;
	struct light_plan p;

	umask(0);
	if (!index || !*index || strspn(index, "0123456789") != strlen(index))
		index = "0";
	read_plan_file(l, index, &plan);
	read_plan_file(l, LIGHT_BYTES, &bytes);
	if (light_plan_decode(plan.s, plan.len, &p) < 0) {
		errno = EINVAL;
		refuse("the plan can't be read");
	}
	w = make_workspace(l, &p, &bytes, &run);
	p.program->dir = dir = xasprintf("%s/0/w", l->root);
	p.program->tmp = tmp = xasprintf("%s/0/tmp", l->root);
	init_run(p.program, l->s, run, &stopped, &r.exit);
	init_make_readable(p.program->dir);
	if (r.exit.status == 0 && !r.exit.signo && !r.exit.timed_out && !r.exit.told_to_end)
		r.too_large = pack_outputs(&p, w, &outputs) > 0;
	if (r.too_large)
		outputs.entries.len = content.len = 0;
	r.entries = outputs.entries.s;
	r.n_entries = outputs.entries.len;
	r.bytes = content.s;
	r.n_bytes = content.len;
	read_log(run, &r, &log);
	tell(l, &r);
	str_deinit(&outputs.entries);
	light_plan_deinit(&p);
	if (r.exit.signo)
		return 128 + r.exit.signo;
	return r.too_large ? INIT_EXIT_UPLOAD : r.exit.status;
}
