/* engine/cli/help/cmd_init.c — `cairn init`: a directory becomes a project.
 *
 * It writes a folder of pipelines/, embedded in the program: the template that was asked for, or
 * `hello`, whose cairn.yaml all templates share. It never overwrites the user's files: an existing
 * file stays, and the command lists files that differ from the template's. The schema in .cairn/ is
 * Cairn's own and is replaced by that of this version. Each file appears whole or not at all; the
 * next init completes one that was interrupted.
 *
 * Paths are opened from the directory's descriptor. .gitignore is the only file that is changed in
 * place: one line is appended, unless a line there ignores .cairn already.
 */
#include <errno.h>
#include <string.h>
#include "base/os/fs.h"
#include "cli/cli.h"
#include "cli/help/templates.h"
#include "record/facts.h"

#define BASE_TEMPLATE "hello"
#define CONFIG        "cairn.yaml"
#define SCHEMA        ".cairn/schema.json"

struct init {
	struct cli *cli;
	int dir_fd;
	const char *dir; /* as named; for messages */
	const char *template;
	unsigned made;
	json_t *files;       /* [{"path", "state"}] */
	const char *differs; /* a file of the user's that differs from the template's, or NULL */
};

/* state: "made", "kept" or "differs". */
static void said(struct init *in, const char *what, const char *state)
{
	bool here = strcmp(in->dir, ".") == 0, made = strcmp(state, "made") == 0;

	in->made += made;
	json_array_append_new(in->files, json_pack("{s:s, s:s}", "path", what, "state", state));
	if (!in->cli->json && in->cli->verbosity >= 0)
		cli_printf(in->cli, "%s %s%s%s\n", made ? "made" : "kept",
			   here ? "" : cli_text(in->cli, in->dir), here ? "" : "/", what);
}

/* flags: FS_WRITE_NEW, or 0 for a file of ours. */
static int make_file(struct init *in, const char *path, const struct embedded_file *f, int flags,
		     struct err *err)
{
	const char *slash = strrchr(path, '/');
	_cleanup_(freep) char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : NULL;
	_cleanup_(fd_closep) int sub = slash ? fs_make_beneath(in->dir_fd, parent, 0777, err) : -1;
	_cleanup_(str_deinit) struct str there = { 0 };
	struct err own = { 0 };
	bool same, theirs;

	if (slash && sub < 0)
		return err_wrap(err, "%s", in->dir);
	same = fs_read_file_at(in->dir_fd, path, MIB, &there, NULL) == 0 && there.len == f->size &&
	       memcmp(there.s, f->bytes, f->size) == 0;
	if (!same && fs_write_atomic_at(slash ? sub : in->dir_fd, slash ? slash + 1 : path,
					f->bytes, f->size, 0644, flags, &own) == 0) {
		said(in, path, "made");
		return 0;
	}
	if (!same && own.code != ERR_EXISTS) {
		if (err)
			*err = own;
		return -1;
	}
	theirs = !same && strcmp(path, CONFIG) != 0; /* settings differ in every project */
	if (theirs)
		in->differs = path;
	said(in, path, theirs ? "differs" : "kept");
	return 0;
}

static int make_files(struct init *in, struct err *err)
{
	size_t n = strlen(in->template);

	for (const struct embedded_file *f = init_files; f->path; f++) {
		int r = 0;

		if (strcmp(f->path, BASE_TEMPLATE "/" CONFIG) == 0)
			r = make_file(in, CONFIG, f, FS_WRITE_NEW, err);
		else if (strcmp(f->path, "schema.json") == 0)
			r = make_file(in, SCHEMA, f, 0, err);
		else if (strncmp(f->path, in->template, n) == 0 && f->path[n] == '/')
			r = make_file(in, f->path + n + 1, f, FS_WRITE_NEW, err);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* Whether a line ignores .cairn already. */
static bool ignores_state(const struct str *s)
{
	static const char *const forms[] = { ".cairn",   ".cairn/",   "/.cairn",
					     "/.cairn/", "**/.cairn", "**/.cairn/" };

	for (size_t at = 0; at < s->len;) {
		size_t n = strcspn(s->s + at, "\n"), len = n;
		while (len && strchr(" \t\r", s->s[at + len - 1]))
			len--;
		for (size_t i = 0; i < ARRAY_LEN(forms); i++)
			if (strlen(forms[i]) == len && memcmp(s->s + at, forms[i], len) == 0)
				return true;
		at += n + 1;
	}
	return false;
}

/* Appends a line; existing text doesn't change. */
static int add_ignore(struct init *in, struct err *err)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	_cleanup_(fd_closep) int fd =
		openat(in->dir_fd, ".gitignore",
		       O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0666);
	bool new_line;

	if (fd < 0)
		return err_errno(err, "cannot write %s/.gitignore", in->dir);
	if (fs_read_file_at(in->dir_fd, ".gitignore", MIB, &s, err) < 0)
		return -1;
	if (s.len && ignores_state(&s)) {
		said(in, ".gitignore", "kept");
		return 0;
	}
	new_line = s.len && s.s[s.len - 1] != '\n';
	if (fs_write_all(fd, new_line ? "\n.cairn/\n" : ".cairn/\n", new_line ? 9 : 8, err) < 0)
		return err_wrap(err, "%s/.gitignore", in->dir);
	said(in, ".gitignore", "made");
	return 0;
}

static int init_project(struct init *in, struct err *err)
{
	bool made;

	if (fs_mkdir_p(in->dir, err) < 0)
		return -1;
	in->dir_fd = open(in->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (in->dir_fd < 0)
		return err_errno(err, "cannot open %s", in->dir);
	made = mkdirat(in->dir_fd, ".cairn", 0777) == 0;
	if (!made && errno != EEXIST)
		return err_errno(err, "cannot make %s/.cairn", in->dir);
	said(in, ".cairn/", made ? "made" : "kept");
	return make_files(in, err) < 0 ? -1 : add_ignore(in, err);
}

int cmd_init(struct cli *cli, const struct cli_args *args)
{
	const char *dir = cli_operand(args, 0), *template = cli_value(args, "template");
	struct init in = { .cli = cli,
			   .dir_fd = -1,
			   .dir = dir ? dir : ".",
			   .template = template ? template : BASE_TEMPLATE,
			   .files = json_array() };
	struct err err = { 0 };
	int r = init_project(&in, &err);

	if (in.dir_fd >= 0)
		close(in.dir_fd);
	if (r < 0) {
		json_decref(in.files);
		return cli_fail(cli, &err);
	}
	if (template && in.differs)
		cli_warn(cli,
			 "%s was there already and isn't the template's: use a new directory, "
			 "`cairn init --template %s DIR`, to get all of it",
			 in.differs, template);
	if (cli->json)
		cli_print_json(cli, "cairn.init/1",
			       json_pack("{s:o, s:s, s:o}", "directory", facts_text(in.dir),
					 "template", in.template, "files", in.files));
	else
		json_decref(in.files);
	if (in.made == 0)
		cli_note(cli, "this was a project already; nothing changed");
	else if (dir)
		cli_note(cli, "next: cd %s && cairn run", cli_text(cli, dir));
	else
		cli_note(cli, "next: cairn run");
	return CLI_OK;
}
