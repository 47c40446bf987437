/* The registry's client from the command line, for tests/net/registry/registry.t.
 *
 *	registry_tool layout DIR FILE       an image of that one file
 *	registry_tool resolve REF [PLATFORM]
 *	registry_tool push DIR REF
 *
 * REGISTRY_PATIENCE_MS: how long failures are waited for. REGISTRY_PLAIN: a host that speaks HTTP.
 */
#include <stdio.h>
#include <string.h>
#include "runners/image/layout.h"
#include "runners/image/registry.h"

static int make_layout(const char *dir, const char *file, struct err *err)
{
	static const char *const entrypoint[] = { "/file", NULL };
	struct image_file files[] = { { .path = "file", .source = file, .mode = 0755 } };
	struct image_content content = { files, ARRAY_LEN(files), "amd64" };
	struct image_config c = { "amd64", entrypoint, "10001:10001", NULL, NULL };
	char digest[IMAGE_DIGEST_MAX];

	if (image_layout_write(dir, &content, &c, NULL, digest, err) < 0)
		return -1;
	printf("%s\n", digest);
	return 0;
}

static int ask(struct registry *r, int argc, char **argv, struct err *err)
{
	char digest[IMAGE_DIGEST_MAX], platform[IMAGE_DIGEST_MAX];

	if (argc >= 3 && strcmp(argv[1], "resolve") == 0) {
		if (registry_resolve(r, argv[2], argv[3] ? argv[3] : "linux/amd64", digest,
				     argv[3] ? platform : NULL, err) < 0)
			return -1;
		printf("%s%s%s\n", digest, argv[3] ? " " : "", argv[3] ? platform : "");
		return 0;
	}
	if (argc == 4 && strcmp(argv[1], "push") == 0) {
		if (registry_push(r, argv[2], argv[3], digest, err) < 0)
			return -1;
		printf("%s\n", digest);
		return 0;
	}
	return err_set(err, ERR_USAGE,
		       "registry_tool layout DIR FILE | resolve REF [PLATFORM] | push DIR REF");
}

int main(int argc, char **argv)
{
	const char *ms = getenv("REGISTRY_PATIENCE_MS"), *plain = getenv("REGISTRY_PLAIN");
	struct registry_options o = { .plain_http = (const char *const[]){ plain, NULL },
				      .retry_for_ns = ms ? strtol(ms, NULL, 10) * NS_PER_MS : 0 };
	struct registry *r = NULL;
	struct err err = { 0 };
	int result;

	if (argc == 4 && strcmp(argv[1], "layout") == 0)
		result = make_layout(argv[2], argv[3], &err);
	else
		result = registry_new(&o, &r, &err) < 0 ? -1 : ask(r, argc, argv, &err);
	registry_free(r);
	if (result < 0)
		fprintf(stderr, "%s\n", err.msg);
	return result < 0 ? err_exit_code(&err) : 0;
}
