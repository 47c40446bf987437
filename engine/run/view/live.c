/* engine/run/view/live.c — the file with the tasks of a running engine: written and read.
 *
 * Lines of text; names have their length before them, since they may hold any bytes:
 *
 *	cairn-live/1 TOTAL EXECUTED HITS FAILED SKIPPED BLOCKED SAVED_NS EXPECTED_END_NS|0
 *	S TOTAL|-1 LENGTH NAME
 *	T STATE ATTEMPT DURATION_NS KEY|- LENGTH NAME       of the step above
 *
 * live_changed() arms one timer. When it fires, the file is written, and the next one waits at
 * least a hundred times as long as that took: watching a run costs it at most one part in a
 * hundred. Nothing is written in the first moment, so short runs and runs that change nothing
 * leave no file.
 *
 * A run that was cancelled or interrupted keeps its file. The first write of another run leaves the
 * newest FILES_MAX files. If one of them is of a run that still goes on, its next write makes it
 * anew.
 *
 * Invariants: a failure to write is forgotten, since the run must not depend on the file. A virtual
 * clock writes nothing. The reader checks each number and length.
 *
 * Threads: the loop's writes; any thread reads. Not here: how attempts change what the file says
 * (tasks.c).
 */
#include "run/view/live.h"
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "run/internal.h"

#define FIRST_NS  (NS_PER_S / 4)
#define PAUSE_NS  NS_PER_S
#define COST_PART 100
#define FILES_MAX 32 /* so that a page of a run cancelled lately still has all its tasks */
#define BYTES_MAX (128 * MIB)
#define HEAD_MAX  4096
#define MAGIC     "cairn-live/1 "

static char *path_of(const char *state_dir, const char *run)
{
	_cleanup_(freep) char *name = fs_file_name(run);

	return xasprintf("%s/live/%s", state_dir, name);
}

/* Writing. */

static enum live_state state_of(const struct plan_task *t)
{
	static const enum live_state phases[PHASES] = {
		[PHASE_PLANNED] = LIVE_READY, [PHASE_READY] = LIVE_READY,
		[PHASE_BEHIND] = LIVE_BEHIND, [PHASE_IN_LINE] = LIVE_LINE,
		[PHASE_PARKED] = LIVE_ROOM,   [PHASE_ELSEWHERE] = LIVE_ELSEWHERE,
		[PHASE_BEGUN] = LIVE_TAKEN,   [PHASE_RUNNING] = LIVE_TAKEN,
		[PHASE_ENDED] = LIVE_TAKEN,   [PHASE_BACKING_OFF] = LIVE_RETRY,
	};

	switch ((enum task_state)t->state) {
	case TASK_STATE_HIT:
		return LIVE_HIT;
	case TASK_STATE_DONE:
		return LIVE_DONE;
	case TASK_STATE_FAILED:
		return LIVE_FAILED;
	case TASK_STATE_SKIPPED:
		return LIVE_SKIPPED;
	case TASK_STATE_BLOCKED:
		return t->cancelled ? LIVE_CANCELLED : LIVE_BLOCKED;
	case TASK_TAKEN:
		return t->task ? phases[task_phase(t->task)] : LIVE_READY;
	case TASK_READY:
		return LIVE_READY;
	default:
		return LIVE_WAITING;
	}
}

static void add_task(const struct plan *p, const struct plan_task *t, struct str *label,
		     struct str *out)
{
	static const struct digest none;
	char hex[DIGEST_HEX_MAX];

	plan_task_label(p, t, label);
	str_addf(out, "T %c %lld %lld %s %zu ", state_of(t), (long long)t->attempt,
		 (long long)t->duration_ns,
		 digest_eq(&t->key, &none) ? "-" : digest_hex(&t->key, hex), label->len);
	str_addn(out, label->s, label->len);
	str_addc(out, '\n');
}

static bool is_shown(const struct plan_task *t)
{
	return t->state != TASK_STATE_UNSELECTED && !(t->state == TASK_WAITING && t->unselected);
}

static void add_step(const struct plan *p, size_t step, bool with_tasks, struct str *out)
{
	const char *name = plan_pipeline(p)->steps[step].name;
	_cleanup_(str_deinit) struct str label = { 0 };
	bool expanded = plan_step_expanded(p, step);
	long long n = 0;

	for (size_t i = 0; expanded && i < plan_n_tasks(p, step); i++)
		n += is_shown(plan_task_at(p, step, i));
	if (n == 0 && !plan_step_selected(p, step))
		return;
	str_addf(out, "S %lld %zu %s\n", expanded ? n : -1, strlen(name), name);
	for (size_t i = 0; with_tasks && expanded && i < plan_n_tasks(p, step); i++)
		if (is_shown(plan_task_at(p, step, i)))
			add_task(p, plan_task_at(p, step, i), &label, out);
}

static bool is_file(int dir_fd, const char *name, const struct stat *st)
{
	return S_ISREG(st->st_mode);
}

static void write_file(struct run *r)
{
	_cleanup_(freep) char *path = path_of(r->ctx->config->state_dir, r->row.id), *dir = NULL;
	_cleanup_(str_deinit) struct str out = { 0 };
	struct run_counts c;

	plan_count(r->plan, &c);
	str_addf(&out, MAGIC "%llu %llu %llu %llu %llu %llu %lld %lld\n",
		 (unsigned long long)c.total, (unsigned long long)c.executed,
		 (unsigned long long)c.hits, (unsigned long long)c.failed,
		 (unsigned long long)c.skipped, (unsigned long long)c.blocked,
		 (long long)c.saved_ns, (long long)run_expected_end_ns(r));
	for (size_t i = 0; i < plan_n_steps(r->plan); i++)
		add_step(r->plan, i, c.total <= LIVE_TASKS_MAX, &out);
	dir = fs_dirname(path);
	if (!r->live.wrote && fs_mkdir_p(dir, NULL) < 0)
		return;
	if (!r->live.wrote)
		fs_keep_newest(dir, FILES_MAX - 1, is_file); /* and this one */
	r->live.wrote |= fs_write_atomic_at(AT_FDCWD, path, out.s, out.len, 0644, FS_WRITE_NO_SYNC,
					    NULL) == 0;
}

static void on_timer(void *arg)
{
	struct run *r = arg;
	int64_t begun = run_mono_ns(r), took;

	r->live.timer = NULL;
	write_file(r);
	took = run_mono_ns(r) - begun;
	r->live.not_before_ns = begun + MAX(PAUSE_NS, took * COST_PART);
}

void live_changed(struct run *r)
{
	int64_t now = run_mono_ns(r);

	if (r->live.timer || loop_clock(r->ctx->loop)->is_virtual)
		return;
	if (!r->live.not_before_ns)
		r->live.not_before_ns = now + FIRST_NS;
	r->live.timer = loop_add_timer(r->ctx->loop, MAX(now, r->live.not_before_ns), on_timer, r);
}

void live_end(struct run *r)
{
	if (r->live.timer)
		loop_remove(r->ctx->loop, r->live.timer);
	r->live.timer = NULL;
	if (!r->plan || loop_clock(r->ctx->loop)->is_virtual)
		return;
	if (r->row.results.kind) { /* an earlier engine may have left one */
		_cleanup_(freep) char *path = path_of(r->ctx->config->state_dir, r->row.id);

		unlink(path);
	} else if (r->live.wrote) {
		write_file(r);
	}
}

/* Reading. */

struct reading {
	const char *at, *end;
};

/* The next word as a number, -1 for "-1"; false: there is none. */
static bool read_number(struct reading *r, int64_t *ret)
{
	const char *end = r->at;
	char word[24];

	while (end < r->end && *end != ' ' && *end != '\n')
		end++;
	if (end == r->end || end == r->at || (size_t)(end - r->at) >= sizeof(word))
		return false;
	memcpy(word, r->at, (size_t)(end - r->at));
	word[end - r->at] = '\0';
	r->at = end + 1;
	return text_parse_int(word, ret);
}

static bool read_name(struct reading *r, struct arena *arena, const char **ret)
{
	int64_t n;

	if (!read_number(r, &n) || n < 0 || n >= r->end - r->at || r->at[n] != '\n')
		return false;
	*ret = arena_strndup(arena, r->at, (size_t)n);
	r->at += n + 1;
	return true;
}

static bool read_head(struct reading *r, struct live_head *ret)
{
	int64_t v[8];

	if (r->end - r->at < (ptrdiff_t)strlen(MAGIC) || memcmp(r->at, MAGIC, strlen(MAGIC)) != 0)
		return false;
	r->at += strlen(MAGIC);
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		if (!read_number(r, &v[i]) || v[i] < 0)
			return false;
	ret->counts = (struct run_counts){ .total = (uint64_t)v[0],
					   .executed = (uint64_t)v[1],
					   .hits = (uint64_t)v[2],
					   .failed = (uint64_t)v[3],
					   .skipped = (uint64_t)v[4],
					   .blocked = (uint64_t)v[5],
					   .saved_ns = v[6] };
	ret->expected_end_ns = v[7];
	return true;
}

static bool read_key(struct reading *r, struct digest *ret)
{
	_cleanup_(freep) char *hex = NULL;
	const char *space = memchr(r->at, ' ', (size_t)(r->end - r->at));
	size_t n = space ? (size_t)(space - r->at) : 0;

	*ret = (struct digest){ 0 };
	if (n == 1 && *r->at == '-') {
		r->at += 2;
		return true;
	}
	if (n != 2 * DIGEST_BYTES)
		return false;
	hex = xstrndup(r->at, n);
	r->at += n + 1;
	return digest_parse(hex, ret, NULL) == 0;
}

static bool read_task(struct reading *r, struct arena *arena, struct live_task *t)
{
	if (r->end - r->at < 2 || !strchr("wrtklmeyhdfsbc", *r->at) || r->at[1] != ' ')
		return false;
	t->state = (enum live_state) * r->at;
	r->at += 2;
	return read_number(r, &t->attempt) && read_number(r, &t->duration_ns) &&
	       read_key(r, &t->key) && read_name(r, arena, &t->name);
}

static bool read_step(struct reading *r, struct arena *arena, struct live_step *s)
{
	VEC(struct live_task) tasks = { 0 };
	int64_t total;
	bool ok = read_number(r, &total) && total >= -1 && read_name(r, arena, &s->name);

	s->expanded = total >= 0;
	s->total = (uint64_t)MAX(total, 0);
	while (ok && r->end - r->at > 2 && r->at[0] == 'T' && r->at[1] == ' ') {
		r->at += 2;
		ok = tasks.n < LIVE_TASKS_MAX && read_task(r, arena, VEC_ADD(&tasks));
	}
	VEC_TO_ARENA(&tasks, arena, &s->tasks, &s->n_tasks);
	return ok;
}

int live_read(const char *state_dir, const char *run, struct arena *arena, struct live *ret)
{
	_cleanup_(freep) char *path = path_of(state_dir, run);
	_cleanup_(str_deinit) struct str text = { 0 };
	VEC(struct live_step) steps = { 0 };
	struct reading r;
	bool ok;

	if (fs_read_file(path, BYTES_MAX, &text, NULL) < 0)
		return 0;
	r = (struct reading){ text.s, text.s + text.len };
	*ret = (struct live){ 0 };
	ok = read_head(&r, &ret->head);
	while (ok && r.end - r.at > 2 && r.at[0] == 'S' && r.at[1] == ' ') {
		r.at += 2;
		ok = read_step(&r, arena, VEC_ADD(&steps));
	}
	VEC_TO_ARENA(&steps, arena, &ret->steps, &ret->n_steps);
	return ok && r.at == r.end;
}

int live_read_head(const char *state_dir, const char *run, struct live_head *ret)
{
	_cleanup_(freep) char *path = path_of(state_dir, run);
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char head[HEAD_MAX];
	ssize_t n = fd < 0 ? -1 : fs_read_at(fd, head, sizeof(head), 0);

	return n > 0 && read_head(&(struct reading){ head, head + n }, ret);
}
