/* `cairn pod`: what runs beside a step's program in a pod (engine/run/pod.h). Not for people: the Job names it. Needs no project. */
#include "base/fs.h"
#include "base/text.h"
#include "cli/cli.h"
#include "run/pod.h"
#include "storage/bucket.h"
#include "storage/origin.h"

/* What was fetched is laid out as copies, so that it need not stay; and checkpoints are kept here only until they are sent. */
#define LOCAL_BYTES (1 * GIB)
#define INDEX_MAX 100000

static const char *not_empty(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static int open_store(const char *state_dir, struct store **ret, struct err *err)
{
	const char *uri = not_empty("CAIRN_STORE"), *style = not_empty("CAIRN_STORE_STYLE"), *anonymous = not_empty("CAIRN_STORE_ANONYMOUS");
	_cleanup_(freep) char *local = fs_join(state_dir, "cairn-store");
	struct bucket_options bucket = { .endpoint = not_empty("CAIRN_STORE_ENDPOINT"), .region = not_empty("CAIRN_STORE_REGION"), .ca_file = not_empty("CAIRN_STORE_CA") };
	struct store_options o = { .local = local, .cache_max = LOCAL_BYTES, .mode = STORE_READ_WRITE, .bucket = &bucket };

	bucket.anonymous = anonymous && !str_eq(anonymous, "0") && !str_eq(anonymous, "false");
	bucket.style = str_eq(style, "path") ? BUCKET_STYLE_PATH : str_eq(style, "virtual") ? BUCKET_STYLE_VIRTUAL : BUCKET_STYLE_AUTO;
	if (!uri)
		return err_set(err, ERR_USAGE, "CAIRN_STORE isn't set: which store are the inputs in?");
	if (store_open_with(uri, &o, false, ret, err) < 0)
		return err_wrap(err, "store %s", uri);
	store_set_origins(*ret, &bucket);
	return store_attach(*ret, err);
}

static int take_duration(const struct cli_args *args, const char *option, int64_t *ret, struct err *err)
{
	const char *v = cli_value(args, option);

	if (!v)
		return 0;
	return text_parse_duration(v, ret, err) < 0 ? err_wrap(err, "--%s", option) : 0;
}

/* Kubernetes numbers the pods of an Indexed Job. */
static int take_index(unsigned *ret, struct err *err)
{
	const char *v = not_empty("JOB_COMPLETION_INDEX");
	char *end;
	unsigned long n;

	if (!v)
		return 0;
	n = strtoul(v, &end, 10);
	if (*end || *v < '0' || *v > '9' || n > INDEX_MAX)
		return err_set(err, ERR_USAGE, "JOB_COMPLETION_INDEX is \"%.20s\", not a number", v);
	*ret = (unsigned)n;
	return 0;
}

static void say(const char *text)
{
	fprintf(stderr, "cairn pod: %s\n", text);
}

static int serve(const struct cli_args *args, struct err *err)
{
	struct pod_options o = { .root = cli_value(args, "root"), .message_path = cli_value(args, "message"), .init_program = cli_value(args, "helper"),
				 .launch_program = cli_value(args, "launcher"), .state_dir = cli_value(args, "state"), .say = say,
				 .series_every_ns = cli_test_duration("CAIRN_TEST_POD_SERIES", 0) };
	const char *spec = not_empty("CAIRN_POD_SPEC");
	struct store *s = NULL;
	int r;

	if (!spec)
		return err_set(err, ERR_USAGE, "CAIRN_POD_SPEC isn't set: which attempts is this pod for?");
	if (take_index(&o.index, err) < 0 || take_duration(args, "checkpoint-every", &o.checkpoint_every_ns, err) < 0 ||
	    take_duration(args, "save-within", &o.save_within_ns, err) < 0)
		return -1;
	if (open_store(o.state_dir ? o.state_dir : "/tmp", &s, err) < 0) {
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
	int r = cli_flag(args, "ready") ? pod_wait_ready(cli_value(args, "root"), &err) : serve(args, &err);

	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
