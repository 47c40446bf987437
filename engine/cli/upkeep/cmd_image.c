/* engine/cli/upkeep/cmd_image.c — `cairn image`: Cairn's own image, made of the running program and
 * the programs next to it.
 *
 * gather() names the programs and lets runners/image/ find the libraries that they need; `dlopened`
 * adds libraries that no ELF header names. The static program has them all in itself
 * (CAIRN_STATIC). The image is always an OCI layout in a directory: where
 * --output wants it, or in a temporary directory that becomes a tar, is pushed, or both
 * (make_in_passing()).
 *
 * Invariants: nothing is downloaded and nothing is executed, and the same files give the same
 * digest. A tar appears whole or not at all. The temporary directory is removed whatever happens.
 *
 * What it doesn't do: know the formats of layers, layouts and registries (runners/image/).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "cli/cli.h"
#include "runners/image/layout.h"
#include "runners/image/registry.h"

/* What goes in. */

/* Their paths in the image: engine/pod/pod.h and runners/kubernetes/job/pod_spec.h rely on them. */
static const struct {
	const char *name, *target;
} programs[] = {
	{ "cairn", "usr/bin/cairn" },
	{ "cairn-steps", "usr/bin/cairn-steps" },
	{ "cairn-init", "usr/lib/cairn/cairn-init" },
	{ "cairn-launch", "usr/lib/cairn/cairn-launch" },
};

#ifdef CAIRN_STATIC
/* Everything is in this one program: the built-in steps by another name of it, and the bytes of the
 * other programs. */
#include "base/embedded.h"

extern const struct embedded_file static_programs[]; /* "cairn-init", "cairn-launch" */

static int gather(struct cli *cli, struct image_content *ret, struct err *err)
{
	struct image_file others[ARRAY_LEN(programs)];
	const char *program = cli_program(cli);
	struct image_request request = {
		.programs = &program, .targets = &programs[0].target, .n = 1, .others = others
	};

	others[request.n_others++] =
		(struct image_file){ .path = programs[1].target, .target = programs[0].name };
	for (const struct embedded_file *e = static_programs; e->path; e++)
		for (size_t i = 2; i < ARRAY_LEN(programs); i++)
			if (str_eq(e->path, programs[i].name))
				others[request.n_others++] =
					(struct image_file){ .path = programs[i].target,
							     .text = e->bytes,
							     .text_bytes = e->size,
							     .mode = 0755 };
	return image_files(&request, cli->arena, ret, err);
}
#else
/* Libraries that are loaded with dlopen(), and those that the C library opens by itself.
 * tests/cli/run/image.t compares the list with the sources. */
static const char *const dlopened[] = {
	"libcurl.so.4",
	"libgit2.so.1.5|libgit2.so|libgit2.so.1.9|libgit2.so.1.8|libgit2.so.1.7|libgit2.so.1.6",
	"libmicrohttpd.so.12",
	"libgnutls.so.30",
	"libpcre2-8.so.0",
	"?libnss_files.so.2",
	"?libnss_dns.so.2",
	"?libgcc_s.so.1",
	NULL
};

/* It lies next to this program, as it was built, or where it is installed. */
static int find_program(struct cli *cli, const char *dir, const char *name, const char **ret,
			struct err *err)
{
	static const char *const places[] = { "", "../lib/cairn/", "../libexec/cairn/" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		*ret = arena_printf(cli->arena, "%s/%s%s", dir, places[i], name);
		if (access(*ret, R_OK) == 0)
			return 0;
	}
	return err_set(err, ERR_NOT_FOUND,
		       "%s is neither in %s nor in ../lib/cairn beside it, and the image must have "
		       "it: build all of Cairn",
		       name, dir);
}

static int gather(struct cli *cli, struct image_content *ret, struct err *err)
{
	_cleanup_(freep) char *dir = fs_dirname(cli_program(cli));
	const char *paths[ARRAY_LEN(programs)], *targets[ARRAY_LEN(programs)];
	struct image_request request = { .programs = paths,
					 .targets = targets,
					 .n = ARRAY_LEN(programs),
					 .dlopened = dlopened };

	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		targets[i] = programs[i].target;
		if (find_program(cli, dir, programs[i].name, &paths[i], err) < 0)
			return -1;
	}
	return image_files(&request, cli->arena, ret, err);
}
#endif

/* Where it goes. */

static int write_tar(const char *layout, const char *name, const char *to, struct err *err)
{
	_cleanup_(freep) char *temporary = NULL;
	int fd, r;

	if (fs_temp_at(AT_FDCWD, to, 0644, &fd, &temporary, err) < 0)
		return -1;
	r = image_tar_write(layout, name, fd, err);
	if (close(fd) < 0 && r == 0)
		r = err_errno(err, "cannot write %s", to);
	if (r == 0 && rename(temporary, to) < 0)
		r = err_errno(err, "cannot make %s", to);
	if (r < 0)
		unlink(temporary);
	return r;
}

struct image_goal {
	const char *output, *push, *name;
	const char *const *add; /* layouts for other processors */
	size_t n_add;
	bool tar, plain_http;
	char digest[IMAGE_DIGEST_MAX];
	struct image_index index; /* with `add` */
};

static int push(const struct image_goal *g, const char *layout, struct arena *arena,
		struct err *err)
{
	struct image_ref ref;
	char digest[IMAGE_DIGEST_MAX];
	struct registry *registry;
	int r;

	if (image_ref_parse(g->push, arena, &ref, err) < 0)
		return -1;
	if (registry_new(
		    &(struct registry_options){
			    .plain_http = g->plain_http ? (const char *const[]){ ref.host, NULL }
							: NULL },
		    &registry, err) < 0)
		return -1;
	r = registry_push(registry, layout, g->push, digest, err);
	registry_free(registry);
	return r;
}

/* A layout that stays is written at its final place; any other in a temporary directory. */
static int make(struct image_goal *g, const struct image_content *content, const char *layout,
		struct arena *arena, struct err *err)
{
	static const char *const entrypoint[] = { "/usr/bin/cairn", NULL },
				 *const env[] = { "PATH=/usr/bin", NULL },
				 *const labels[] = {
					 "org.opencontainers.image.title=cairn",
					 "org.opencontainers.image.version=" CAIRN_VERSION,
					 "org.opencontainers.image.description=Workflow engine for "
					 "preprocess-train-evaluate pipelines",
					 "org.opencontainers.image.licenses=Apache-2.0", NULL
				 };
	const struct image_config c = { content->architecture, entrypoint, "10001:10001", env,
					labels };

	if (image_layout_write(layout, content, &c, g->name, g->digest, err) < 0)
		return -1;
	g->index.architectures[g->index.n++] = content->architecture;
	if (g->n_add) {
		if (image_layout_add(layout, g->add, g->n_add, g->name, arena, &g->index, err) < 0)
			return -1;
		memcpy(g->digest, g->index.digest, sizeof(g->digest));
	}
	if (g->tar && write_tar(layout, g->name, g->output, err) < 0)
		return -1;
	return g->push ? push(g, layout, arena, err) : 0;
}

static int make_in_passing(struct cli *cli, struct image_goal *g,
			   const struct image_content *content, struct err *err)
{
	_cleanup_(freep) char *beside = g->output ? fs_dirname(g->output) : NULL;
	const char *tmp = getenv("TMPDIR");
	char *dir = arena_printf(cli->arena, "%s/.tmp-image-XXXXXX",
				 beside        ? beside
				 : tmp && *tmp ? tmp
					       : "/tmp");
	int r;

	if (!mkdtemp(dir))
		return err_errno(err, "cannot make a directory beside %s",
				 g->output ? g->output : dir);
	r = make(g, content, dir, cli->arena, err);
	if (fs_remove_tree(dir, r == 0 ? err : NULL) < 0 && r == 0)
		r = -1;
	return r;
}

/* The command. */

static uint64_t bytes_of(const struct image_content *content)
{
	uint64_t bytes = 0;
	struct stat st;

	for (size_t i = 0; i < content->n; i++)
		if (content->files[i].source && stat(content->files[i].source, &st) == 0)
			bytes += (uint64_t)st.st_size;
	return bytes;
}

static size_t files_of(const struct image_content *content)
{
	size_t n = 0;

	for (size_t i = 0; i < content->n; i++)
		n += content->files[i].source || content->files[i].text;
	return n;
}

static void tell(struct cli *cli, const struct image_goal *g, const struct image_content *content)
{
	_cleanup_(str_deinit) struct str platforms = { 0 };
	json_t *architectures = json_array();

	for (size_t i = 0; i < g->index.n; i++) {
		str_addf(&platforms, "%slinux/%s", i ? ", " : "", g->index.architectures[i]);
		json_array_append_new(architectures, json_string(g->index.architectures[i]));
	}
	if (cli->json) {
		cli_print_json(cli, "cairn.image/1",
			       json_pack("{s:s, s:s, s:s?, s:s?, s:I, s:I, s:s, s:o}", "digest",
					 g->digest, "name", g->name, "output", g->output, "pushed",
					 g->push, "size", (json_int_t)bytes_of(content), "files",
					 (json_int_t)files_of(content), "architecture",
					 content->architecture, "architectures", architectures));
		return;
	}
	json_decref(architectures);
	cli_printf(cli, "%s\n", g->digest);
	cli_note(cli, "%zu files, %s unpacked, for %s%s%s%s%s", files_of(content),
		 cli_bytes(cli, bytes_of(content)), cli_text(cli, platforms.s),
		 g->output ? ": " : "", g->output ? cli_text(cli, g->output) : "",
		 g->push ? "; pushed as " : "", g->push ? cli_text(cli, g->push) : "");
}

static int full_name(struct cli *cli, const char *text, const char **ret, struct err *err)
{
	_cleanup_(str_deinit) struct str name = { 0 };
	struct image_ref ref;

	if (image_ref_parse(text, cli->arena, &ref, err) < 0)
		return -1;
	if (ref.digest)
		return err_set(err, ERR_USAGE,
			       "%s: the digest is known only once the image is made; give a tag",
			       text);
	image_ref_add(&name, &ref);
	*ret = arena_strdup(cli->arena, name.s);
	return 0;
}

int cmd_image(struct cli *cli, const struct cli_args *args)
{
	struct image_goal g = { .output = cli_value(args, "output"),
				.push = cli_value(args, "push"),
				.plain_http = cli_flag(args, "plain-http") };
	const char *name = cli_value(args, "name");
	struct image_content content;
	struct err err = { 0 };
	int r;

	if (!g.output && !g.push)
		return cli_usage_error(cli, "say where the image goes: --output or --push");
	if (full_name(cli,
		      name     ? name
		      : g.push ? g.push
			       : "cairn:" CAIRN_VERSION,
		      &g.name, &err) < 0)
		return cli_fail(cli, &err);
	g.add = cli_values(args, "add", cli->arena, &g.n_add);
	g.tar = g.output && str_has_suffix(g.output, ".tar");
	r = gather(cli, &content, &err);
	if (r == 0)
		r = g.output && !g.tar ? make(&g, &content, g.output, cli->arena, &err)
				       : make_in_passing(cli, &g, &content, &err);
	if (r < 0)
		return cli_fail(cli, &err);
	tell(cli, &g, &content);
	return CLI_OK;
}
