/* engine/cli/run/cmd_pod.c — `cairn pod`: runs next to a step's program in a pod
 * (engine/pod/pod.h).
 *
 * The Job calls it, not a person. It needs no project. Everything comes from the environment
 * (CAIRN_POD_SPEC, CAIRN_STORE and CAIRN_STORE_*, JOB_COMPLETION_INDEX, CAIRN_POD_FIRST) and a few
 * options.
 *
 * --ready is the postStart hook and --well the readiness probe; without them the sidecar itself
 * runs. Before it opens the store, first_contact() tries the store's address for up to CONTACT_NS.
 * So a wrong endpoint is found while the hook of the container still waits; the later retries of
 * store requests would take longer than that.
 *
 * Invariant: a store that can't be reached or opened still becomes a result that the engine can
 * read (pod_refuse()).
 */
#include <time.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "cli/cli.h"
#include "pod/pod.h"
#include "record/manifest/manifest.h"
#include "runners/kubernetes/job/pod_spec.h"
#include "storage/bucket/bucket.h"
#include "storage/origin/origin.h"

/* Fetched content is laid out as copies, so it needn't stay; checkpoints stay only until they are
 * sent. */
#define LOCAL_BYTES (1 * GIB)
#define INDEX_MAX   100000
/* Without --cache-size. */
#define CACHE_BYTES (20 * GIB)
/* Shorter than the hook waits (pod_wait_ready()). */
#define CONTACT_NS (12 * NS_PER_S)

static uint64_t cache_bytes = CACHE_BYTES; /* the limit of the node's cache */

static const char *not_empty(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

/* Reads what the Job puts into the environment. */
static void store_place(struct bucket_options *ret)
{
	const char *style = not_empty("CAIRN_STORE_STYLE"),
		   *anonymous = not_empty("CAIRN_STORE_ANONYMOUS");

	ret->endpoint = not_empty("CAIRN_STORE_ENDPOINT");
	ret->endpoint_given = true;
	ret->region = not_empty("CAIRN_STORE_REGION");
	ret->ca_file = not_empty("CAIRN_STORE_CA");
	ret->anonymous = anonymous && !str_eq(anonymous, "0") && !str_eq(anonymous, "false");
	ret->style = str_eq(style, "path")      ? BUCKET_STYLE_PATH
		     : str_eq(style, "virtual") ? BUCKET_STYLE_VIRTUAL
						: BUCKET_STYLE_AUTO;
}

/* The store of CAIRN_STORE, with this directory in front of it. */
static int open_behind(const char *local, uint64_t bytes, enum store_mode mode, struct store **ret,
		       struct err *err)
{
	struct bucket_options bucket = { 0 };
	struct store_options o = { .local = local,
				   .cache_max = bytes,
				   .mode = mode,
				   .bucket = &bucket,
				   .names = &manifest_names };

	store_place(&bucket);
	if (store_open_with(not_empty("CAIRN_STORE"), &o, false, ret, err) < 0)
		return -1;
	store_set_origins(*ret, &bucket);
	return 0;
}

static int open_store(const char *state_dir, struct store **ret, struct err *err)
{
	const char *uri = not_empty("CAIRN_STORE");
	_cleanup_(freep) char *local = fs_join(state_dir, "cairn-store");

	if (!uri)
		return err_set(err, ERR_USAGE,
			       "CAIRN_STORE isn't set: it names the store that has the inputs");
	if (open_behind(local, LOCAL_BYTES, STORE_READ_WRITE, ret, err) < 0)
		return err_wrap(err, "store %s", uri);
	return store_attach(*ret, err);
}

/* Of the node's cache, to read only: what this pod makes goes through its own directory. */
static int open_cache(const char *dir, struct store **ret, struct err *err)
{
	return open_behind(dir, cache_bytes, STORE_READ_ONLY, ret, err);
}

/* A store's part of it is named after the store. */
static int take_cache(const struct cli_args *args, struct pod_options *o, struct arena *arena,
		      struct err *err)
{
	const char *dir = cli_value(args, "cache"), *size = cli_value(args, "cache-size"),
		   *pod = cli_value(args, "mount-as"), *uri = not_empty("CAIRN_STORE"),
		   *endpoint = not_empty("CAIRN_STORE_ENDPOINT");
	_cleanup_(freep) char *place = NULL;
	char hex[DIGEST_HEX_MAX];
	struct digest d;

	if (!dir)
		return 0;
	if (dir[0] != '/')
		return err_set(err, ERR_USAGE, "--cache must be an absolute path, not %.200s", dir);
	if (size && text_parse_bytes(size, &cache_bytes, err) < 0)
		return err_wrap(err, "--cache-size");
	if (cache_bytes == 0)
		return err_set(err, ERR_USAGE, "--cache-size must be more than 0");
	if (pod && (!*pod || *pod == '.' || strchr(pod, '/')))
		return err_set(err, ERR_USAGE, "--mount-as must be a plain name, not %.200s", pod);
	if (!uri || uri[0] == '/')
		return 0; /* a directory needs nothing in front */
	place = xasprintf("%s %s", uri, endpoint ? endpoint : "");
	digest_bytes(place, strlen(place), &d);
	o->cache_dir = arena_printf(arena, "%s/%.16s", dir, digest_hex(&d, hex));
	o->open_cache = open_cache;
	if (pod)
		o->views_dir = arena_printf(arena, "%s/pods/%s", dir, pod);
	return 0;
}

static int take_duration(const struct cli_args *args, const char *option, int64_t *ret,
			 struct err *err)
{
	const char *v = cli_value(args, option);

	if (!v)
		return 0;
	return text_parse_duration(v, ret, err) < 0 ? err_wrap(err, "--%s", option) : 0;
}

static int take_number(const char *name, unsigned *ret, struct err *err)
{
	const char *v = not_empty(name);
	char *end;
	unsigned long n;

	if (!v)
		return 0;
	n = strtoul(v, &end, 10);
	if (*end || *v < '0' || *v > '9' || n > INDEX_MAX)
		return err_set(err, ERR_USAGE, "%s is \"%.20s\", not a number", name, v);
	*ret = (unsigned)n;
	return 0;
}

/* Kubernetes numbers the pods of an Indexed Job. An operator numbers those of each group, and
 * CAIRN_POD_FIRST is the number of the group's first (job/kind.h). The sum stands for both from
 * here on. */
static int take_index(unsigned *ret, struct err *err)
{
	unsigned first = 0;
	char text[16];

	if (take_number("JOB_COMPLETION_INDEX", ret, err) < 0 ||
	    take_number("CAIRN_POD_FIRST", &first, err) < 0)
		return -1;
	*ret += first;
	snprintf(text, sizeof(text), "%u", *ret);
	if (first)
		setenv("JOB_COMPLETION_INDEX", text, 1);
	return 0;
}

static void say(const char *text)
{
	fprintf(stderr, "cairn pod: %s\n", text);
}

/* Whether the store's address answers. Any answer will do, even a refusal or "busy". Later requests
 * to the store are retried for longer than the container's hook waits, so a wrong endpoint must be
 * found here. */
static int first_contact(const char *root, struct err *err)
{
	const char *uri = not_empty("CAIRN_STORE");
	_cleanup_(freep) char *ready = fs_join(root ? root : POD_ROOT, "run/ready");
	int64_t until = clock_mono_ns() + CONTACT_NS;
	struct bucket_options o = { .tries = 1, .max_connections = 1 };
	struct bucket *b = NULL;
	int r;

	if (!uri || uri[0] == '/' || access(ready, F_OK) == 0)
		return 0;
	store_place(&o);
	if (bucket_open(uri, &o, &b, err) < 0)
		return -1;
	do {
		_cleanup_(str_deinit) struct str strings = { 0 };
		struct bucket_object found;
		struct err why = { 0 };

		r = bucket_head(b, "format", &found, &strings, &why);
		if (r == 0 || why.code != ERR_IO || bucket_has_answered(b)) {
			r = 0;
			break;
		}
		r = err_set(err, ERR_IO, "the pod does not reach the store %s: %s", uri, why.msg);
		say(err->msg);
		clock_sleep(NS_PER_S);
	} while (clock_mono_ns() < until);
	bucket_free(b);
	if (r == 0)
		*err = (struct err){ 0 };
	return r;
}

static int serve(const struct cli_args *args, struct arena *arena, struct err *err)
{
	struct pod_options o = { .root = cli_value(args, "root"),
				 .message_path = cli_value(args, "message"),
				 .init_program = cli_value(args, "helper"),
				 .launch_program = cli_value(args, "launcher"),
				 .state_dir = cli_value(args, "state"),
				 .say = say,
				 .series_every_ns = cli_test_duration("CAIRN_TEST_POD_SERIES", 0) };
	const char *spec = not_empty("CAIRN_POD_SPEC");
	struct store *s = NULL;
	int r;

	if (!spec)
		return err_set(err, ERR_USAGE,
			       "CAIRN_POD_SPEC isn't set: it names the pod's attempts");
	if (take_index(&o.index, err) < 0 ||
	    take_duration(args, "checkpoint-every", &o.checkpoint_every_ns, err) < 0 ||
	    take_duration(args, "save-within", &o.save_within_ns, err) < 0 ||
	    take_cache(args, &o, arena, err) < 0)
		return -1;
	if (first_contact(o.root, err) < 0 ||
	    open_store(o.state_dir ? o.state_dir : "/tmp", &s, err) < 0) {
		struct err why = *err;

		return pod_refuse(&o, &why, err);
	}
	r = pod_serve(s, spec, &o, err);
	store_free(s);
	return r;
}

int cmd_pod(struct cli *cli, const struct cli_args *args)
{
	struct err err = { 0 };
	int r = cli_flag(args, "ready")  ? pod_wait_ready(cli_value(args, "root"), &err)
		: cli_flag(args, "well") ? pod_is_well(cli_value(args, "state"), &err)
					 : serve(args, cli->arena, &err);

	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
