/* Content of a store from the command line, for tests of pods: what the engine does before and
 *after one.
 *
 *	pod_tool put STORE PATH		takes PATH in and prints its id
 *	pod_tool get STORE ID PATH	lays it out
 *	pod_tool spec STORE FILE	the specification in FILE, checked: its id
 *	pod_tool result STORE FILE      the termination message in FILE, from the store where it
 *	                                lies there
 *	pod_tool forget STORE KEY	the checkpoint of a task
 */
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "runners/kubernetes/job/pod_spec.h"
#include "storage/bucket/bucket.h"
#include "storage/checkpoint.h"

static struct err err;

_noreturn_ static void die(void)
{
	fprintf(stderr, "pod_tool: %s\n", err.msg);
	exit(1);
}

static void must(int r)
{
	if (r < 0)
		die();
}

static void print_id(struct store *s, const struct content_id *id)
{
	struct str text = { 0 };

	must(store_sync(s, &err));
	if (store_unsent(s, &err))
		die();
	pod_content_write(id, &text);
	puts(text.s);
	str_deinit(&text);
}

static void put(struct store *s, const char *path)
{
	struct content_id id;

	must(content_put_at(s, AT_FDCWD, path, NULL, &id, &err));
	print_id(s, &id);
}

static void get(struct store *s, const char *text, const char *path)
{
	struct content_id id;

	must(pod_content_read(text, &id, &err));
	must(content_materialise_at(s, &id, CONTENT_COPY_WRITABLE, AT_FDCWD, path, &err));
}

static void spec(struct store *s, const char *path)
{
	struct arena *arena = arena_new();
	struct str text = { 0 };
	struct runner_attempt *v;
	struct content_id id;
	size_t n;

	must(fs_read_file(path, POD_SPEC_MAX, &text, &err));
	must(pod_spec_read(text.s, text.len, 0, arena, &v, &n, &err));
	must(content_put_bytes(s, text.s, text.len, &id, &err));
	print_id(s, &id);
	str_deinit(&text);
	arena_free(arena);
}

static void result(struct store *s, const char *path)
{
	struct arena *arena = arena_new();
	struct str text = { 0 };
	struct content_id where;
	struct pod_result *v;
	size_t n;
	int r;

	must(fs_read_file(path, POD_MESSAGE_MAX, &text, &err));
	must(r = kube_pod_result_read(text.s ? text.s : "", text.len, arena, &v, &n, &where, &err));
	if (r == 1) {
		str_reset(&text);
		must(content_read(s, &where, POD_RESULT_MAX, &text, &err));
		must(kube_pod_result_read(text.s, text.len, arena, &v, &n, &where, &err));
	}
	puts(text.s);
	str_deinit(&text);
	arena_free(arena);
}

int main(int argc, char **argv)
{
	struct bucket_options bucket = { .endpoint = getenv("CAIRN_STORE_ENDPOINT"),
					 .region = getenv("CAIRN_STORE_REGION"),
					 .style = BUCKET_STYLE_PATH };
	struct store_options o = { .local = getenv("POD_TOOL_LOCAL"), .bucket = &bucket };
	struct digest key;
	struct store *s;

	if (argc < 4)
		return 2;
	must(store_open_with(argv[2], &o, true, &s, &err));
	if (strcmp(argv[1], "put") == 0)
		put(s, argv[3]);
	else if (strcmp(argv[1], "get") == 0)
		get(s, argv[3], argv[4]);
	else if (strcmp(argv[1], "spec") == 0)
		spec(s, argv[3]);
	else if (strcmp(argv[1], "result") == 0)
		result(s, argv[3]);
	else if (digest_parse(argv[3], &key, &err) < 0 || checkpoint_forget(s, &key, &err) < 0)
		die();
	store_free(s);
	return 0;
}
