/* engine/plan/sources/sources.c — what comes from the project when a run starts: code, the versions
 * of tools, installed packages (code: code/; the pipeline's inputs: pin.c; images: image.c).
 *
 * Each is pinned under a name, so that a resumed run, and later a reproduced one, gets the same
 * content without the project. plan_pin_sources() goes once over the selected steps that have a
 * command.
 *
 * To learn a tool's version its command is run, once a plan, in the root directory, with no more of
 * our environment than a step gets. With hash_only no tool is run: the answer of the last run
 * counts while the files that the command's words name are the same (find_programs()), else the
 * version is unknown.
 *
 * Where commands run in images (plan_context.images), neither tools nor packages are looked at: the
 * key has the image.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/time/clock.h"
#include "plan/code/code.h"

/* A tool's version when this command may not run it. */
#define TOOL_UNKNOWN "(not known until a run asks it)\n"
/* A tool's output is kept whole up to this size, which is enough for any --version. */
#define TOOL_TEXT_MAX   (64 * KIB)
#define TOOL_TIMEOUT_NS (300 * NS_PER_S)

const struct plan_pin *plan_pin_find(const struct plan *p, const char *name)
{
	void *i = map_get_str(p->pins.by_name, name);

	return i ? &p->pins.all.v[(uintptr_t)i - 1] : NULL;
}

void plan_pin_add(struct plan *p, const char *name, const char *origin, const struct content_id *id)
{
	struct plan_pin pin = { arena_strdup(p->arena, name), arena_strdup(p->arena, origin), *id };

	VEC_PUSH(&p->pins.all, pin);
	*map_slot_str(p->pins.by_name, name) = (void *)(uintptr_t)p->pins.all.n;
}

bool plan_is_resumed(const struct plan *p)
{
	return p->ctx.pins != NULL;
}

int plan_put_at(struct plan *p, const char *below, int dir, const char *path, int flags,
		struct content_id *ret, struct err *err)
{
	/* What the project ignores is nothing to a commit or a run, which are the same anywhere. */
	struct content_put_options o = { .flags = flags,
					 .cache = p->ctx.cache,
					 .n_threads = p->options.hash_threads,
					 .exclude = config_not_content,
					 .ignore = below ? NULL : p->ctx.config->ignore };

	return content_put_at(p->ctx.store, dir, path, &o, ret, err);
}

int plan_put_path(struct plan *p, const char *below, const char *path, int flags,
		  struct content_id *ret, struct err *err)
{
	_cleanup_(freep) char *dir = config_root(p->ctx.config, below);
	_cleanup_(fd_closep) int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return err_errno(err, "cannot open the project %s", dir);
	return plan_put_at(p, below, root, path, flags, ret, err);
}

/* Tools. */

/* The file that a word of a command names, found on PATH; false when there is none. */
static bool find_program(const char *word, size_t n, struct stat *ret)
{
	const char *path = getenv("PATH");

	if (memchr(word, '/', n)) {
		_cleanup_(freep) char *file =
			xasprintf("/%.*s", (int)n, word); /* tools run in the root directory */

		return stat(file, ret) == 0 && S_ISREG(ret->st_mode);
	}
	while (n && path && *path) {
		size_t dir_n = strcspn(path, ":");
		_cleanup_(freep) char *file =
			xasprintf("%.*s/%.*s", (int)dir_n, path, (int)n, word);

		if (*file == '/' && access(file, X_OK) == 0 && stat(file, ret) == 0 &&
		    S_ISREG(ret->st_mode))
			return true;
		path += dir_n + (path[dir_n] == ':');
	}
	return false;
}

static void mix(uint64_t *sum, uint64_t v)
{
	*sum = (*sum ^ v) * 0x9e3779b97f4a7c15ULL;
	*sum ^= *sum >> 32;
}

static void mix_time(uint64_t *sum, const struct timespec *t, struct timespec *latest)
{
	mix(sum, (uint64_t)t->tv_sec);
	mix(sum, (uint64_t)t->tv_nsec);
	if (t->tv_sec > latest->tv_sec ||
	    (t->tv_sec == latest->tv_sec && t->tv_nsec > latest->tv_nsec))
		*latest = *t;
}

/* Combines the files that a command's words name into one stat, so that the remembered version
 * lapses when any of them changes: `time -p gcc --version` and `python3 /opt/version.py` depend on
 * the later word as much as on the first. False when the first word names no file: a shell builtin
 * may do anything. */
static bool find_programs(const char *command, struct stat *ret)
{
	static const char ends[] = " \t\n;|&<>()'\"`";
	uint64_t mixed = 0;
	size_t found = 0;

	for (const char *word = command; *word;) {
		size_t n = strcspn(word, ends);
		struct stat st;

		if (n && find_program(word, n, &st)) {
			if (!found++)
				*ret = st;
			mix(&mixed, (uint64_t)st.st_ino);
			mix(&mixed, (uint64_t)st.st_dev);
			mix(&mixed, (uint64_t)st.st_size);
			mix_time(&mixed, &st.st_mtim, &ret->st_mtim);
			mix_time(&mixed, &st.st_ctim, &ret->st_ctim);
		}
		if (n && !found)
			return false;
		word += n;
		word += strspn(word, ends);
	}
	if (found > 1)
		ret->st_ino = (ino_t)mixed;
	return found > 0;
}

/* The project chooses the command, so it gets no more of our environment than its steps do. */
static int run_tool(const struct plan *p, const char *command, struct str *out, struct err *err)
{
	static const char *const env[] = { "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", NULL };
	_cleanup_(freep) char *full = xasprintf("cd '/' && { %s\n} 2>&1 </dev/null", command);
	const char *argv[] = { "/bin/sh", "-c", full, NULL };
	struct command c = { .argv = argv,
			     .env = env,
			     .bare = true,
			     .timeout_ns = TOOL_TIMEOUT_NS,
			     .max_bytes = TOOL_TEXT_MAX };
	int status;

	if (command_output(&c, out, &status, err) < 0)
		return err_wrap(err, "tool `%s` can't say its version", command);
	if (status != 0)
		return err_set(err, ERR_NOT_FOUND,
			       "tool `%s` can't say its version (exit status %d): %.200s", command,
			       status, out->len ? out->s : "");
	return 0;
}

static int ask_tool(struct plan *p, const char *name, struct str *text, struct err *err)
{
	const char *command = name + strlen("tool:");
	int64_t now = clock_wall_ns();
	struct stat before, after;
	bool found = find_programs(command, &before);
	struct content_id id;
	struct err why = { 0 };

	if (run_tool(p, command, text, p->ctx.again ? &why : err) < 0) {
		if (!p->ctx.again)
			return -1;
		/* The tasks may do without it: their new results are compared with the recorded
		 * ones. */
		found = false;
		str_reset(text);
		str_addf(text, "(%s)\n", why.msg);
	}
	if (content_put_bytes(p->ctx.store, text->len ? text->s : "", text->len, &id, err) < 0)
		return -1;
	plan_pin_add(p, name, "tool", &id);
	if (p->ctx.cache && found && find_programs(command, &after) &&
	    before.st_ino == after.st_ino)
		statcache_put(p->ctx.cache, name, &before, now, &id);
	return 0;
}

int plan_pin_tool(struct plan *p, const char *command, const char **ret, struct err *err)
{
	_cleanup_(freep) char *name = xasprintf("tool:%s", command);
	_cleanup_(str_deinit) struct str text = { 0 };
	const struct plan_pin *pin = plan_pin_find(p, name);
	struct err lost = { 0 };
	struct content_id id;
	struct stat st;
	bool found = true;
	int r = 0;

	if (pin)
		r = content_read(p->ctx.store, &pin->id, TOOL_TEXT_MAX, &text, err);
	else if (p->options.hash_only)
		found = p->ctx.cache && find_programs(command, &st) &&
			statcache_get(p->ctx.cache, name, &st, &id) &&
			content_read(p->ctx.store, &id, TOOL_TEXT_MAX, &text, &lost) == 0;
	else
		r = ask_tool(p, name, &text, err);
	if (!found)
		str_add(&text, TOOL_UNKNOWN);
	if (r == 0)
		*ret = arena_strndup(p->arena, text.len ? text.s : "", text.len);
	return r;
}

/* The active environment. */

#define PACKAGES_TEXT_MAX (4 * MIB)

/* Once a run: a resumed or reproduced run keeps the packages that its start found. */
static int pin_packages(struct plan *p, const char **ret, struct err *err)
{
	static const char name[] = PLAN_PIN_PACKAGES;
	const struct plan_pin *pin = plan_pin_find(p, name);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct content_id id;

	if (pin) {
		if (content_read(p->ctx.store, &pin->id, PACKAGES_TEXT_MAX, &text, err) < 0)
			return -1;
	} else if (!plan_is_resumed(p) && !p->ctx.again) {
		if (plan_packages_on_path(getenv("PATH"), &text, err) < 0)
			return -1;
		if (text.len && content_put_bytes(p->ctx.store, text.s, text.len, &id, err) < 0)
			return -1;
		if (text.len)
			plan_pin_add(p, name, "PATH", &id);
	}
	if (text.len)
		*ret = arena_strndup(p->arena, text.s, text.len);
	return 0;
}

/* Sandbox. */

struct step_sandbox plan_step_sandbox(const struct plan *p, size_t step)
{
	struct step_sandbox s = p->steps[step].decl->machine->sandbox;

	if (s.strictness == STRICTNESS_UNSTATED)
		s.strictness = p->sandbox.strictness;
	if (s.network == NETWORK_UNSTATED)
		s.network = p->sandbox.network;
	return s;
}

/* The words of cairn.yaml are part of keys, so a resumed or reproduced run keeps those of its
 * start: "sn", two digits. */
static int pin_sandbox(struct plan *p, struct err *err)
{
	static const char name[] = PLAN_PIN_SANDBOX;
	const struct step_sandbox *said = &p->ctx.config->sandbox;
	const struct plan_pin *pin = plan_pin_find(p, name);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct content_id id;

	p->sandbox = (struct step_sandbox){ STRICTNESS_NONE, NETWORK_HOST };
	if (pin) {
		if (content_read(p->ctx.store, &pin->id, 2, &text, err) < 0)
			return -1;
		if (text.len != 2 || text.s[0] < '0' || text.s[0] > '0' + STRICTNESS_STRICT ||
		    text.s[1] < '0' || text.s[1] > '0' + NETWORK_NONE)
			return err_set(err, ERR_CORRUPT, "the run's sandbox isn't readable");
		p->sandbox = (struct step_sandbox){ (uint32_t)text.s[0] - '0',
						    (uint32_t)text.s[1] - '0' };
	} else if (!plan_is_resumed(p) && !p->ctx.again && (said->strictness || said->network)) {
		p->sandbox.strictness = MAX(said->strictness, STRICTNESS_NONE);
		p->sandbox.network = MAX(said->network, NETWORK_HOST);
		str_addf(&text, "%u%u", p->sandbox.strictness, p->sandbox.network);
		if (content_put_bytes(p->ctx.store, text.s, text.len, &id, err) < 0)
			return -1;
		plan_pin_add(p, name, "cairn.yaml", &id);
	}
	return 0;
}

/* What no runner can give. */
static int check_sandbox(const struct plan *p, size_t step, struct err *err)
{
	const struct step *s = p->steps[step].decl;
	const uint32_t network = plan_step_sandbox(p, step).network;

	if (network != NETWORK_HOST && p->ctx.images)
		return err_set(
			err, ERR_INVALID,
			"%s:%d:%d: step `%s` says `network: %s`, which pods can't have: "
			"their containers share one network, and Cairn's must reach the store",
			s->pos.file, s->pos.line, s->pos.col, s->name,
			network == NETWORK_NONE ? "none" : "loopback");
	if (network == NETWORK_NONE && s->machine->distributed.framework)
		return err_set(err, ERR_INVALID,
			       "%s:%d:%d: the ranks of step `%s` meet by network, and cairn.yaml "
			       "says `network: none`: give the step `network: loopback`",
			       s->pos.file, s->pos.line, s->pos.col, s->name);
	return 0;
}

int plan_pin_sources(struct plan *p, struct err *err)
{
	const char *packages = NULL;
	int r;

	for (size_t i = 0; i < p->ctx.n_pins; i++)
		plan_pin_add(p, p->ctx.pins[i].name, p->ctx.pins[i].origin, &p->ctx.pins[i].id);
	r = plan_pin_inputs(p, err);
	if (r == 0)
		r = pin_sandbox(p, err);
	if (r == 0 && !p->ctx.images)
		r = pin_packages(p, &packages, err);
	for (size_t i = 0; i < p->n_steps && r == 0; i++) {
		struct plan_step *s = &p->steps[i];
		const struct step *d = s->decl;

		if (s->selected)
			r = check_sandbox(p, i, err);
		if (r < 0 || !s->selected || !d->program.run)
			continue;
		r = code_pin(p, s, err);
		if (r == 0 && d->reads->environment && plan_pin_environment(p, s, err) < 0)
			r = err_wrap(err, "%s:%d:%d: step `%s`", d->pos.file, d->pos.line,
				     d->pos.col, d->name);
		if (d->reads->n_tools == 0) {
			/* An environment of its own hides those on PATH. */
			s->facts.packages = s->facts.environment ? NULL : packages;
			continue;
		}
		if (p->ctx.images)
			continue;
		s->facts.tool_text = arena_alloc(p->arena, (d->reads->n_tools + 1) *
								   sizeof(*s->facts.tool_text));
		for (size_t k = 0; k < d->reads->n_tools && r == 0; k++)
			if (plan_pin_tool(p, d->reads->tools[k], &s->facts.tool_text[k], err) < 0)
				r = err_wrap(err, "%s:%d:%d: step `%s`", d->pos.file, d->pos.line,
					     d->pos.col, d->name);
	}
	return r < 0 ? -1 : plan_pin_images(p, err);
}
