/* engine/model/config/config.c — cairn.yaml and the CAIRN_* variables become a struct config.
 * kubernetes.c reads the block `kubernetes`.
 *
 * config_load(): find the root, find the state directory, refuse a state that isn't the caller's
 * own (state.c), read the file over the defaults, read the variables over the file. The store is
 * last, since its default depends on the state directory. The file is read with the readers of
 * pipelines (read.h), by a loader that has only an arena and diags. A missing file counts as an
 * empty one.
 *
 * A relative path in the file is relative to the project root, one in a variable to the working
 * directory, as its author would expect. The commands apply the flags of the command line later.
 */
#include <string.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "model/config/internal.h"
#include "model/state.h"
#include "model/step/placement.h"

static const char *const cache_modes[] = { "read-write", "read-only", "off" };
static const char *const workspaces[] = { "auto", "mount", "link", "copy" };
static const char *const styles[] = { "auto", "path", "virtual" };

/* A directory as an absolute path, or an object-store URI unchanged; NULL with *ret_problem. */
static const char *store_location(struct arena *arena, const char *text, const char *base,
				  const char **ret_problem)
{
	_cleanup_(freep) char *joined = NULL, *normal = NULL;

	*ret_problem = NULL;
	if (str_has_prefix(text, "s3://") || str_has_prefix(text, "gs://")) {
		if (strcspn(text + 5, "/") < 3)
			*ret_problem = "the name of the bucket is missing or too short";
		return arena_strdup(arena, text);
	}
	if (str_has_prefix(text, "s3:") || str_has_prefix(text, "gs:"))
		*ret_problem = "two slashes follow the scheme: s3://bucket/… or gs://bucket/…";
	else if (strstr(text, "://"))
		*ret_problem = "a store is a directory, s3://bucket/… or gs://bucket/…";
	else if (*text == '\0')
		*ret_problem = "it is empty";
	if (*ret_problem)
		return NULL;
	joined = fs_join(base, text);
	normal = fs_normalise(joined);
	return arena_strdup(arena, normal);
}

/* NULL after a report. */
static const char *config_text(const struct doc *d, const struct yaml_node *n, const char *what)
{
	return doc_want_text(d, n, what) ? doc_text(d, n) : NULL;
}

/* Reads the keys in which this machine and pods may differ. */
void config_read_access(const struct doc *d, const struct yaml_node *n, struct config_access *a)
{
	const struct yaml_node *v;

	if ((v = yaml_get(n, "endpoint")) && (*a->endpoint = config_text(d, v, "`endpoint`")) &&
	    !str_has_prefix(v->text, "https://") && !str_has_prefix(v->text, "http://"))
		doc_error(d, v, "`endpoint`: `%.80s` must begin with https:// or http://", v->text);
	if ((v = yaml_get(n, "region")))
		*a->region = config_text(d, v, "`region`");
	if ((v = yaml_get(n, "style")))
		read_choice(d, v, "`style`", styles, ARRAY_LEN(styles), a->style);
	if ((v = yaml_get(n, "anonymous")))
		read_bool(d, v, "`anonymous`", a->anonymous);
}

static void read_store_options(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	static const char *const keys[] = { "endpoint", "region", "profile",
					    "style",    "ca",     "anonymous" };
	struct config_access a = { &c->store.options.endpoint, &c->store.options.region,
				   &c->store.options.style, &c->store.options.anonymous };
	const struct yaml_node *v;

	if (!doc_want_map(d, n, "`store_options`"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	config_read_access(d, n, &a);
	if ((v = yaml_get(n, "profile")))
		c->store.options.profile = config_text(d, v, "`profile`");
	if ((v = yaml_get(n, "ca")) && doc_want_text(d, v, "`ca`")) {
		_cleanup_(freep) char *joined = fs_join(c->project_root, v->text);

		c->store.options.ca = arena_strdup(c->arena, joined);
	}
}

static void read_retention(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	static const char *const keys[] = { "runs", "age" };
	const struct yaml_node *v;
	int64_t runs;

	if (!doc_want_map(d, n, "`retention`"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	if ((v = yaml_get(n, "runs")) && read_count(d, v, "`runs`", 1, INT64_MAX, &runs))
		c->retention.runs = (uint64_t)runs;
	if ((v = yaml_get(n, "age")) && read_duration(d, v, "`age`", &c->retention.ns) &&
	    c->retention.ns == 0)
		doc_error(d, v, "`age` must be more than 0; leave it out to keep runs for ever");
}

const char *const config_not_content[] = { ".cairn", ".git", NULL };

char *config_root(const struct config *c, const char *root)
{
	return external_dir(c->project_root, c->uses_dir, root);
}

char *config_path(const struct config *c, const char *path)
{
	return fs_join(external_root_len(path) ? c->uses_dir : c->project_root, path);
}

static void read_ignore(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	const char **list;
	size_t count = 0;

	if (!doc_want_list(d, n, "`ignore`"))
		return;
	list = arena_alloc(c->arena, (n->len + 1) * sizeof(*list));
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *v = n->items[i];

		if (!doc_want_text(d, v, "an entry of `ignore`"))
			continue;
		if (strchr(v->text, '/') || v->text[0] == '!')
			doc_error(d, v,
				  "`ignore`: `%.80s`: give a name, as `*.swp` or `__pycache__`, "
				  "without "
				  "`/` or `!`; it counts in every directory",
				  v->text);
		else if (strspn(v->text, "*") == v->len)
			doc_error(d, v, "`ignore`: `%.80s` would leave nothing", v->text);
		else
			list[count++] = doc_text(d, v);
	}
	c->ignore = list;
}

bool config_takes_results(const struct config *c)
{
	return !str_eq(c->store.cache, "off") || !str_eq(c->runner, "kubernetes");
}

int config_choose_runner(struct config *c, const char *name, struct err *err)
{
	_cleanup_(freep) const char **names = xcalloc(c->clusters.n + 2, sizeof(*names));
	_cleanup_(str_deinit) struct str all = { 0 }, near = { 0 };
	size_t n = 0;

	names[n++] = "local";
	names[n++] = "kubernetes";
	for (size_t i = 0; i < c->clusters.n; i++)
		names[n++] = c->clusters.v[i].name;
	for (size_t i = 0; i < n; i++)
		if (str_eq(name, names[i])) {
			c->runner = names[i == 0 ? 0 : 1];
			c->clusters.chosen = i < 2 ? NULL : names[i];
			c->kubernetes =
				i < 2 ? c->clusters.unnamed : c->clusters.v[i - 2].kubernetes;
			return 0;
		}
	for (size_t i = 0; i < n; i++)
		str_addf(&all, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", names[i]);
	str_add(&near, "");
	text_add_suggestion(&near, name, names, n);
	return err_set(err, ERR_USAGE, "must be %s, not `%.60s`%s", all.s, name, near.s);
}

const char *config_server_url(struct arena *arena, const char *text, struct err *err)
{
	const char *host = str_has_prefix(text, "http://") || str_has_prefix(text, "https://")
				   ? strchr(text, ':') + 3
				   : "";

	if (!*host || *host == '/' || strpbrk(host, "?#@ \"\\")) {
		err_set(err, ERR_USAGE, "`%.80s` must be http://HOST[:PORT] or https://HOST[:PORT]",
			text);
		return NULL;
	}
	return arena_strndup(arena, text, str_len_without(text, '/'));
}

static void read_serve(const struct doc *d, const struct yaml_node *n, struct config *c)
{
	static const char *const keys[] = { "lease", "project", "url" };
	const struct yaml_node *v;
	struct err why = { 0 };

	if (!doc_want_map(d, n, "`serve`"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	if ((v = yaml_get(n, "lease")))
		placement_read_name(d, v, "`lease`", &c->serve.lease);
	if ((v = yaml_get(n, "project")))
		c->serve.project = config_text(d, v, "`project`");
	if ((v = yaml_get(n, "url")) && doc_want_text(d, v, "`url`") &&
	    !(c->serve.url = config_server_url(c->arena, v->text, &why)))
		doc_error(d, v, "`url`: %s", why.msg);
}

static void read_config(const struct doc *d, const struct yaml_node *root, struct config *c)
{
	static const char *const keys[] = { "store",         "runner",          "salt",
					    "jobs",          "resources",       "retention",
					    "kubernetes",    "cache",           "cache_size",
					    "store_options", "reference_above", "serve",
					    "ignore",        "workspace",       "audit",
					    "sandbox",       "network" };
	static const char *const resources[] = { "cpu", "memory", "gpu" };
	const struct yaml_node *v;
	const char *uri, *problem;
	struct err why = { 0 };
	int64_t count;

	if (yaml_is_null(root) || !doc_want_map(d, root, "cairn.yaml"))
		return;
	doc_check_keys(d, root, keys, ARRAY_LEN(keys));
	if ((v = yaml_get(root, "store")) && doc_want_text(d, v, "`store`")) {
		uri = store_location(c->arena, v->text, c->project_root, &problem);
		if (problem)
			doc_error(d, v, "`store`: `%.80s`: %s", v->text, problem);
		else
			c->store.uri = uri;
	}
	if ((v = yaml_get(root, "cache")))
		read_choice(d, v, "`cache`", cache_modes, ARRAY_LEN(cache_modes), &c->store.cache);
	if ((v = yaml_get(root, "cache_size")) &&
	    read_bytes(d, v, "`cache_size`", &c->store.cache_bytes) && c->store.cache_bytes == 0)
		doc_error(d, v,
			  "`cache_size` must be more than 0; leave it out to keep everything");
	if ((v = yaml_get(root, "ignore")))
		read_ignore(d, v, c);
	if ((v = yaml_get(root, "reference_above")))
		read_bytes(d, v, "`reference_above`", &c->reference_above);
	if ((v = yaml_get(root, "store_options")))
		read_store_options(d, v, c);
	if ((v = yaml_get(root, "workspace")))
		read_choice(d, v, "`workspace`", workspaces, ARRAY_LEN(workspaces), &c->workspace);
	if ((v = yaml_get(root, "sandbox")))
		read_strictness(d, v, &c->sandbox);
	if ((v = yaml_get(root, "network")))
		read_network(d, v, &c->sandbox);
	if ((v = yaml_get(root, "audit")))
		read_bool(d, v, "`audit`", &c->audit);
	if ((v = yaml_get(root, "salt")) && doc_want_scalar(d, v, "`salt`"))
		c->salt = doc_text(d, v);
	if ((v = yaml_get(root, "jobs")) && read_count(d, v, "`jobs`", 0, CONFIG_JOBS_MAX, &count))
		c->limits.jobs = (uint32_t)count;
	if ((v = yaml_get(root, "resources")) && doc_want_map(d, v, "`resources`")) {
		doc_check_keys(d, v, resources, ARRAY_LEN(resources));
		read_machine(d, v, "; leave it out for all that the machine has",
			     &c->limits.cpu_milli, &c->limits.memory_bytes);
		if ((v = yaml_get(v, "gpu")) && read_count(d, v, "`gpu`", 0, 1024, &count))
			c->limits.gpus = (int32_t)count;
	}
	if ((v = yaml_get(root, "retention")))
		read_retention(d, v, c);
	if ((v = yaml_get(root, "serve")))
		read_serve(d, v, c);
	if ((v = yaml_get(root, "kubernetes")))
		config_read_kubernetes(d, v, c);
	if ((v = yaml_get(root, "runner")) && doc_want_text(d, v, "`runner`") &&
	    config_choose_runner(c, doc_text(d, v), &why) < 0)
		doc_error(d, v, "`runner` %s", why.msg);
}

static int load_file(struct config *c, struct diag_list *diags, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(c->project_root, "cairn.yaml");
	_cleanup_(arena_freep) struct arena *scratch = arena_new();
	_cleanup_(yaml_tree_freep) struct yaml_tree *tree = NULL;
	struct loader l = { .arena = c->arena, .scratch = scratch, .diags = diags };
	struct doc d = { .l = &l, .file = path, .dir = "." };
	size_t before = diag_errors(diags);
	struct err e = { 0 };

	if (yaml_tree_load(path, diags, &tree, &e) < 0) {
		if (e.code == ERR_NOT_FOUND && diag_errors(diags) == before)
			return 0;
		return err_pass(err, &e);
	}
	read_config(&d, tree->root, c);
	return diag_errors(diags) > before ? diag_to_err(diags, path, err) : 0;
}

/* Environment. */

/* NULL when it is unset or empty. */
static const char *variable(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static void bad_variable(struct diag_list *diags, const char *name, const char *problem)
{
	diag_error(diags, name, 0, 0, "%s", problem);
}

static void read_variables(struct config *c, struct diag_list *diags)
{
	_cleanup_(freep) char *cwd = getcwd(NULL, 0);
	const char *v, *problem, *uri;
	struct err why = { 0 };
	int64_t jobs;

	if ((v = variable("CAIRN_STORE"))) {
		uri = store_location(c->arena, v, cwd ? cwd : c->project_root, &problem);
		if (problem)
			bad_variable(diags, "CAIRN_STORE", problem);
		else
			c->store.uri = uri;
	}
	if ((v = variable("CAIRN_CACHE"))) {
		for (size_t i = 0; i < ARRAY_LEN(cache_modes); i++)
			if (strcmp(v, cache_modes[i]) == 0)
				c->store.cache = cache_modes[i];
		if (strcmp(v, c->store.cache) != 0)
			bad_variable(diags, "CAIRN_CACHE", "must be read-write, read-only or off");
	}
	if ((v = variable("CAIRN_RUNNER")) &&
	    config_choose_runner(c, arena_strdup(c->arena, v), &why) < 0)
		bad_variable(diags, "CAIRN_RUNNER", why.msg);
	if ((v = variable("CAIRN_SERVER")) &&
	    !(c->serve.url = config_server_url(c->arena, v, &why)))
		bad_variable(diags, "CAIRN_SERVER", why.msg);
	if ((v = variable("CAIRN_JOBS"))) {
		if (!text_parse_int(v, &jobs) || jobs < 0 || jobs > CONFIG_JOBS_MAX)
			bad_variable(diags, "CAIRN_JOBS",
				     "must be a number of tasks to run at once");
		else
			c->limits.jobs = (uint32_t)jobs;
	}
}

int config_load(const char *start_dir, struct diag_list *diags, struct config **ret,
		struct err *err)
{
	static const char *const none[] = { NULL };
	_cleanup_(freep) char *cwd = getcwd(NULL, 0), *root = NULL, *joined = NULL, *dir = NULL;
	const char *named = variable("CAIRN_DIR");
	struct arena *arena;
	struct config *c;
	size_t before = diag_errors(diags);
	int r;

	if (fs_find_project_root(start_dir, &root, err) < 0)
		return -1;
	arena = arena_new();
	c = arena_alloc(arena, sizeof(*c));
	*c = (struct config){ .project_root = arena_strdup(arena, root),
			      .runner = "local",
			      .store.cache = cache_modes[0],
			      .workspace = workspaces[0],
			      .limits.gpus = -1,
			      .reference_above = GIB,
			      .arena = arena };
	c->store.options.style = styles[0];
	c->ignore = none;
	config_kubernetes_init(c);
	joined = named ? fs_join(cwd ? cwd : root, named) : fs_join(root, ".cairn");
	dir = fs_normalise(joined);
	c->state_dir = arena_strdup(arena, dir);
	if (state_check(c->project_root, c->state_dir, named, err) < 0) {
		config_free(c);
		return -1;
	}
	c->store.local = arena_printf(arena, "%s/store", dir);
	c->uses_dir = arena_printf(arena, "%s/uses", dir);
	r = load_file(c, diags, err);
	read_variables(c, diags);
	if (r == 0 && diag_errors(diags) > before)
		r = diag_to_err(diags, "the environment", err);
	if (r < 0) {
		config_free(c);
		return r;
	}
	if (!c->store.uri)
		c->store.uri = c->store.local;
	*ret = c;
	return 0;
}

bool config_store_is_shared(const struct config *c)
{
	return strstr(c->store.uri, "://") != NULL;
}

const char *config_store_dir(const struct config *c)
{
	return config_store_is_shared(c) ? c->store.local : c->store.uri;
}

void config_free(struct config *c)
{
	if (!c)
		return;
	json_decref(c->clusters.placements);
	arena_free(c->arena);
}
