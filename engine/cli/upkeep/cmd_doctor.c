/* engine/cli/upkeep/cmd_doctor.c — `cairn doctor`: checks what runs need, and says how to solve
 * each problem.
 *
 * Each check is a function that adds findings (doctor_found()). None depends on another's outcome,
 * so that one problem doesn't hide the next. Without a project, only those of the machine run.
 * Checks of a cluster are in doctor_kubernetes.c and doctor_pod.c.
 *
 * Checks try things out where they can: they write a file, make a reflink, set the child subreaper.
 * A system's own description isn't always true.
 *
 * Invariants: checks leave nothing behind. The store isn't created, and probe files are removed. A
 * finding that isn't `ok` carries advice where there is some.
 */
#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif
#include "base/crypto/sign.h"
#include "base/crypto/trust.h"
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/os/process/landlock.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "cli/upkeep/doctor.h"
#include "plan/environment.h"
#include "run/project/store.h"
#include "run/task/secret.h"
#include "runners/kubernetes/job/kind.h"
#include "runners/links.h"
#include "runners/mounts.h"
#include "runners/sandbox.h"
#include "storage/signature.h"

#define LOW_DISK_BYTES (1 * GIB)
#define MIN_YEAR_S     1700000000 /* November 2023: an earlier clock is wrong */

void doctor_found(struct doctor *d, enum doctor_verdict v, const char *name, const char *advice,
		  const char *fmt, ...)
{
	static const char *const words[] = { "ok", "warning", "problem" };
	static const enum cli_style styles[] = { STYLE_GREEN, STYLE_YELLOW, STYLE_RED };
	_cleanup_(str_deinit) struct str detail = { 0 };
	va_list ap;

	assert(v < ARRAY_LEN(words));
	va_start(ap, fmt);
	str_addv(&detail, fmt, ap);
	va_end(ap);
	d->problem |= v == DOCTOR_PROBLEM;
	if (d->checks) {
		json_t *j = json_pack("{s:s, s:s, s:o}", "name", name, "state", words[v], "detail",
				      json_name(detail.s, detail.len));
		json_object_set_new(j, "advice", advice ? json_string(advice) : json_null());
		json_array_append_new(d->checks, j);
		return;
	}
	if (v == DOCTOR_OK && d->cli->verbosity < 0)
		return;
	cli_printf(d->cli, "%s%-8s%s %-11s %s\n", cli_style(d->cli, styles[v]), words[v],
		   cli_style(d->cli, STYLE_PLAIN), name, cli_text(d->cli, detail.s));
	if (advice)
		cli_printf(d->cli, "%-20s → %s\n", "", advice);
}

/* Project. */

static void check_project(struct doctor *d)
{
	struct err err = { 0 };

	if (cli_config(d->cli, &d->config, &err) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "project",
			     err.code == ERR_NOT_FOUND
				     ? "make this directory a project with `cairn init`"
				     : "correct cairn.yaml",
			     "%s", err.msg);
		d->config = NULL;
		return;
	}
	doctor_found(d, DOCTOR_OK, "project", NULL, "%s", d->config->project_root);
}

/* Where the project's state is, or will be: a check must not create it. */
static const char *state_place(const struct doctor *d)
{
	return access(d->config->state_dir, F_OK) == 0 ? d->config->state_dir
						       : d->config->project_root;
}

static void check_state_dir(struct doctor *d)
{
	_cleanup_(freep) char *probe = fs_join(state_place(d), "doctor-probe"), *name = NULL;
	_cleanup_(fd_closep) int fd = -1;
	const char *network = fs_network_name(state_place(d));
	struct err err = { 0 };

	if (fs_temp_at(AT_FDCWD, probe, 0600, &fd, &name, &err) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "state",
			     "get permission to write there, or free disk space", "%s", err.msg);
		return;
	}
	unlink(name);
	if (network)
		doctor_found(d, DOCTOR_WARNING, "state",
			     "keep the project on a local disk: the database is slower and locks "
			     "are weaker over a network",
			     "%s is on %s", d->config->state_dir, network);
	else
		doctor_found(d, DOCTOR_OK, "state", NULL, "%s can be written", state_place(d));
}

static void check_store(struct doctor *d)
{
	struct store *store;
	struct err err = { 0 };

	bool is_open = cli_store(d->cli, false, &store, &err) == 0;
	int there = is_open ? run_try_store(d->config, &err) : 0;

	if (there < 0)
		doctor_found(
			d, DOCTOR_PROBLEM, "store",
			"mend the network, the endpoint or the credentials; `cairn run --cache "
			"off` works without it",
			"%s doesn't answer as it should: %s", d->config->store.uri, err.msg);
	else if (is_open && there == 0)
		doctor_found(d, DOCTOR_OK, "store", NULL, "%s", d->config->store.uri);
	else if (is_open)
		doctor_found(d, DOCTOR_OK, "store", NULL,
			     "%s answers; the first run makes the store", d->config->store.uri);
	else if (err.code == ERR_NOT_FOUND)
		doctor_found(d, DOCTOR_OK, "store", NULL,
			     "%s: not there yet; the first run makes it", d->config->store.uri);
	else
		doctor_found(d, DOCTOR_PROBLEM, "store",
			     err.code == ERR_NEWER ? "use the newer cairn that made it"
			     : err.code == ERR_UNSUPPORTED
				     ? "name a directory as `store` in cairn.yaml"
				     : "see `store` in cairn.yaml",
			     "%s", err.msg);
}

/* Whether this user signs records, and the key that others need to trust them. */
static void check_signing(struct doctor *d)
{
	_cleanup_(freep) char *path = trust_config_path("key");
	_cleanup_(sign_key_freep) struct sign_key *key = NULL;
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err err = { 0 };

	if (path && sign_key_load(path, &key, &err) == 0) {
		sign_add_public(&text, sign_key_public(key));
		doctor_found(d, DOCTOR_OK, "signing", NULL, "records are signed by %s", text.s);
	} else if (path && err.code != ERR_NOT_FOUND) {
		doctor_found(d, DOCTOR_PROBLEM, "signing", NULL, "%s", err.msg);
	} else if (d->cli->store && signature_is_wanted(d->cli->store)) {
		doctor_found(d, DOCTOR_WARNING, "signing",
			     "openssl genpkey -algorithm ed25519 -out ~/.config/cairn/key",
			     "you trust only signed records, but have no key to sign your own");
	}
}

static void check_database(struct doctor *d)
{
	struct db *db;
	struct err err = { 0 };

	if (cli_db(d->cli, DB_READ, &db, &err) < 0) {
		if (err.code == ERR_NOT_FOUND)
			doctor_found(d, DOCTOR_OK, "database", NULL,
				     "not there yet; the first run makes it");
		else
			doctor_found(d, DOCTOR_PROBLEM, "database",
				     err.code == ERR_NEWER ? "use the newer cairn that wrote it"
							   : NULL,
				     "%s", err.msg);
		return;
	}
	if (db_check(db, &err) < 0)
		doctor_found(d, DOCTOR_PROBLEM, "database",
			     "move .cairn/cairn.db away: results are still in the store, and runs "
			     "find them there",
			     "%s", err.msg);
	else
		doctor_found(d, DOCTOR_OK, "database", NULL, "sound");
}

static void check_secrets(struct doctor *d)
{
	struct secret_entry *v = NULL;
	struct err err = { 0 };
	size_t n = 0, bad = 0;

	if (secret_list(d->config, &v, &n, &err) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "secrets", NULL, "%s", err.msg);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		_cleanup_(str_wipe) struct str value = { 0 };
		if (secret_get(d->config, v[i].name, &value, &err) < 0 && !bad++)
			doctor_found(d, DOCTOR_PROBLEM, "secrets", NULL, "%s", err.msg);
		free(v[i].name);
	}
	free(v);
	if (n && !bad)
		doctor_found(d, DOCTOR_OK, "secrets", NULL, "%zu can be read", n);
}

/* Machine. */

static void check_disk(struct doctor *d)
{
	const char *path = state_place(d);
	struct statvfs fs;
	uint64_t free_bytes;

	if (statvfs(path, &fs) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "disk", NULL, "cannot look at %s: %s", path,
			     strerrordesc_np(errno));
		return;
	}
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (fs.f_flag & ST_RDONLY)
		doctor_found(d, DOCTOR_PROBLEM, "disk", "mount it for writing, or move the project",
			     "%s is on a read-only file system", path);
	else if (free_bytes < LOW_DISK_BYTES)
		doctor_found(d, DOCTOR_WARNING, "disk", "free some with `cairn store gc`",
			     "only %s free", cli_bytes(d->cli, free_bytes));
	else if (fs.f_files && fs.f_favail < 10000)
		doctor_found(d, DOCTOR_WARNING, "disk", "free some with `cairn store gc`",
			     "only %llu inodes free", (unsigned long long)fs.f_favail);
	else
		doctor_found(d, DOCTOR_OK, "disk", NULL, "%s free", cli_bytes(d->cli, free_bytes));
}

/* How inputs get to local steps. Tries it out: mount options and layers aren't in a file system's
 * own description. */
static void check_copies(struct doctor *d)
{
	const char *state = state_place(d), *store = config_store_dir(d->config);
	const char *said = d->config->workspace;
	struct err no_mounts = { 0 }, no_links = { 0 };
	bool is_auto = str_eq(said, "auto");

	if (access(store, F_OK) < 0)
		store = state;
	if (str_eq(said, "copy") || (is_auto && links_reflinks(store, state))) {
		doctor_found(
			d, DOCTOR_OK, "copies", NULL,
			links_reflinks(store, state)
				? "shared by the file system (reflinks): inputs cost no space"
				: "`workspace: copy` in cairn.yaml: inputs and code are copied "
				  "into workspaces");
		return;
	}
	if (!str_eq(said, "link") &&
	    mounts_check(config_store_dir(d->config), state, &no_mounts) == 0) {
		doctor_found(d, DOCTOR_OK, "copies", NULL,
			     "%sinputs are mounted (no reflinks here)%s", is_auto ? "large " : "",
			     geteuid() ? ", in a user namespace: steps with them can't use sudo"
				       : "");
	} else if (str_eq(said, "mount")) {
		doctor_found(d, DOCTOR_PROBLEM, "copies",
			     "leave `workspace: mount` out of cairn.yaml, or say copy",
			     "inputs can't be mounted: %s", no_mounts.msg);
	} else if (links_check(store, state, &no_links) == 0) {
		doctor_found(d, DOCTOR_OK, "copies", NULL,
			     "%sinputs are read-only hard links, which Landlock protects%s%s%s",
			     is_auto ? "large " : "`workspace: link` in cairn.yaml: ",
			     is_auto ? " (no reflinks here; mounts aren't possible: " : "",
			     is_auto ? no_mounts.msg : "", is_auto ? ")" : "");
	} else if (str_eq(said, "link")) {
		doctor_found(d, DOCTOR_PROBLEM, "copies",
			     "leave `workspace: link` out of cairn.yaml, or say copy",
			     "inputs can't be links: %s", no_links.msg);
	} else {
		doctor_found(d, DOCTOR_OK, "copies", NULL,
			     "no reflinks here: inputs and code are copied into workspaces (mounts "
			     "aren't possible: %s; links aren't possible: %s)",
			     no_mounts.msg, no_links.msg);
	}
}

/* Whether `sandbox: strict` and `network:` are possible. It is a problem where cairn.yaml says them
 * for all steps. */
static void check_sandbox(struct doctor *d)
{
	const struct step_sandbox *said = &d->config->sandbox;
	struct err strict = { 0 }, network = { 0 };
	bool can_be_strict = landlock_check(&strict) == 0,
	     can_be_alone = sandbox_check_network(&network) == 0;

	if (!can_be_strict)
		doctor_found(d, said->strictness == STRICTNESS_STRICT ? DOCTOR_PROBLEM : DOCTOR_OK,
			     "sandbox", "leave `sandbox: strict` out of cairn.yaml",
			     "`sandbox: strict` isn't possible: %s", strict.msg);
	if (!can_be_alone)
		doctor_found(d, said->network > NETWORK_HOST ? DOCTOR_PROBLEM : DOCTOR_OK,
			     "sandbox", "leave `network` out of cairn.yaml",
			     "`network: none` and `loopback` aren't possible: %s", network.msg);
	if (can_be_strict && can_be_alone)
		doctor_found(d, DOCTOR_OK, "sandbox", NULL,
			     "steps can be strict, and have no network");
}

/* Before 3.37 there are no STRICT tables. Cairn's own lock prevents the WAL-reset bug of SQLite in
 * any version. */
static void check_libraries(struct doctor *d)
{
	bool sha = false;
#if defined(__x86_64__)
	unsigned a, b, c, e;

	sha = __get_cpuid_count(7, 0, &a, &b, &c, &e) && (b & (1u << 29));
#elif defined(__aarch64__)
	sha = getauxval(AT_HWCAP) & (1u << 6); /* HWCAP_SHA2 */
#endif
	doctor_found(d, sqlite3_libversion_number() < 3037000 ? DOCTOR_PROBLEM : DOCTOR_OK,
		     "sqlite",
		     sqlite3_libversion_number() < 3037000 ? "install SQLite 3.37 or newer" : NULL,
		     "%s", sqlite3_libversion());
	doctor_found(d, DOCTOR_OK, "openssl", NULL, "%s", OpenSSL_version(OPENSSL_VERSION_STRING));
	if (sha && !digest_is_by_cpu())
		doctor_found(d, DOCTOR_PROBLEM, "sha", "unset OPENSSL_ia32cap and OPENSSL_armcap",
			     "the cpu has SHA instructions, but libcrypto doesn't use them: "
			     "hashing is several times slower");
	else
		doctor_found(d, DOCTOR_OK, "sha", NULL, "%s",
			     sha ? "libcrypto uses the SHA instructions of the cpu"
				 : "the cpu has no SHA instructions: hashing is several times "
				   "slower");
}

static void check_system(struct doctor *d)
{
	struct statfs fs;
	int was = 0;

	if (prctl(PR_GET_CHILD_SUBREAPER, &was) < 0 || prctl(PR_SET_CHILD_SUBREAPER, was) < 0)
		doctor_found(d, DOCTOR_PROBLEM, "processes", "use Linux 5.4 or newer",
			     "orphaned processes of tasks can't be found (no child subreaper)");
	else
		doctor_found(d, DOCTOR_OK, "processes", NULL,
			     "orphaned processes of tasks are found and ended");
	if (access("/proc/self/stat", R_OK) < 0)
		doctor_found(d, DOCTOR_WARNING, "proc", "mount /proc",
			     "/proc can't be read: processes that a task leaves behind can't be "
			     "told apart");
	if (statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == 0x63677270)
		doctor_found(d, DOCTOR_OK, "cgroup", NULL,
			     "version 2; memory of tasks is accounted, not limited");
	else
		doctor_found(d, DOCTOR_OK, "cgroup", NULL,
			     "no version 2: memory of tasks is accounted, not limited");
	if (clock_wall_ns() < MIN_YEAR_S * NS_PER_S)
		doctor_found(d, DOCTOR_PROBLEM, "time", "set the clock: runs are ordered by it",
			     "the clock is years behind");
	else
		doctor_found(d, DOCTOR_OK, "time", NULL, "the clock is plausible");
}

/* Tools of the pipeline. */

static bool in_path(const char *program)
{
	_cleanup_(freep) char *found = command_find(program);

	return found != NULL;
}

static void check_environment(struct doctor *d, const struct pipeline *p, const struct step *s)
{
	const char *path = s->reads->environment, *name;
	_cleanup_(lock_deinit) struct lock l = { 0 };
	_cleanup_(freep) char *tool = NULL, *root = config_root(d->config, s->root);
	struct err err = { 0 };

	if (!environment_is_first(p, (size_t)(s - p->steps)))
		return;
	if (lock_read(root, path, &l, &err) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "environment", "see `cairn check`", "step %s: %s",
			     s->name, err.msg);
		return;
	}
	tool = lock_tool(l.kind, &name);
	if (tool)
		doctor_found(d, DOCTOR_OK, "environment", NULL, "step %s: %s, made with %s",
			     s->name, path, tool);
	else
		doctor_found(d, DOCTOR_PROBLEM, "environment", "install it, or put it into PATH",
			     "step %s: %s is made with %s, which isn't in PATH", s->name, path,
			     name);
}

/* What owns the step's pods: its own `as`, or that of cairn.yaml. */
static void note_kind(struct doctor *d, const struct step *s)
{
	_cleanup_(json_decrefp) json_t *own =
		s->machine->place.json ? json_loads(s->machine->place.json, 0, NULL) : NULL;
	const char *as = json_string_value(json_object_get(own, "as"));

	if (!as)
		as = json_string_value(json_object_get(d->config->kubernetes.placement, "as"));
	if (!as || str_eq(as, "job") || !kube_kind_of(as) ||
	    !kube_kind_takes(kube_kind_of(as), s->machine->distributed.nodes))
		return;
	for (size_t i = 0; i < d->kinds.n; i++)
		if (str_eq(d->kinds.v[i], as))
			return;
	VEC_PUSH(&d->kinds, arena_strdup(d->cli->arena, as));
}

static void check_pipeline(struct doctor *d, const char *path)
{
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	struct err err = { 0 };
	bool before = d->problem;
	size_t n = 0;

	if (!path && access("pipeline.yaml", F_OK) < 0)
		return; /* a project without a pipeline is fine */
	if (cli_pipeline(d->cli, path, &p, &err) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "pipeline", "see `cairn check`", "%s", err.msg);
		return;
	}
	doctor_found(d, DOCTOR_OK, "pipeline", NULL, "%s: %zu step%s", p->path, p->n_steps,
		     p->n_steps == 1 ? "" : "s");
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];

		/* On a cluster the tools are in the images, and plan/sources/image.c refuses a step
		 * without one.
		 */
		if (!str_eq(d->config->runner, "local")) {
			note_kind(d, s);
			if (s->program.run && !s->machine->place.image &&
			    !s->settings[SETTING_IMAGE])
				doctor_found(
					d, DOCTOR_PROBLEM, "image",
					"say `image:` there, or for all steps under `defaults:`",
					"%s:%d: step %s has no image for its command to run in",
					s->pos.file, s->pos.line, s->name);
			continue;
		}
		if (s->program.shell && !in_path(s->program.shell))
			doctor_found(d, DOCTOR_PROBLEM, "tools", "install it",
				     "step %s needs the shell %s", s->name, s->program.shell);
		check_environment(d, p, s);
		for (size_t k = 0; k < s->reads->n_tools; k++, n++) {
			/* The first word of the command, without quotes. */
			const char *word = s->reads->tools[k];
			const char quote[] = { *word, '\0' };
			bool quoted = *word == '\'' || *word == '"';
			_cleanup_(freep) char *program =
				xstrndup(word + quoted, quoted ? strcspn(word + 1, quote)
							       : strcspn(word, " \t\n;|&<>()"));

			if (!in_path(program))
				doctor_found(d, DOCTOR_PROBLEM, "tools",
					     "install it, or put it into PATH",
					     "step %s needs %s, which isn't in PATH", s->name,
					     program);
		}
	}
	if (n && d->problem == before)
		doctor_found(d, DOCTOR_OK, "tools", NULL,
			     "all %zu that the pipeline names are in PATH", n);
}

int cmd_doctor(struct cli *cli, const struct cli_args *args)
{
	struct doctor d = { .cli = cli, .checks = cli->json ? json_array() : NULL };

	check_project(&d);
	if (d.config) {
		check_state_dir(&d);
		check_disk(&d);
		check_store(&d);
		check_signing(&d);
		check_database(&d);
		check_secrets(&d);
		check_copies(&d);
		check_sandbox(&d);
	}
	check_libraries(&d);
	check_system(&d);
	if (d.config)
		check_pipeline(&d, cli_operand(args, 0));
	if (d.config && str_eq(d.config->runner, "kubernetes")) {
		doctor_kubernetes(&d);
		if (cli_flag(args, "deep"))
			doctor_pod(&d);
	}
	VEC_FREE(&d.kinds);
	if (d.checks)
		cli_print_json(cli, "cairn.doctor/1",
			       json_pack("{s:o, s:b}", "checks", d.checks, "healthy", !d.problem));
	return d.problem ? CLI_TASK_FAILED : CLI_OK;
}
