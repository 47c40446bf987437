/* `cairn init`: a directory becomes a project. Never overwrites: what is there stays as it is. */
#include <errno.h>
#include <string.h>
#include "base/fs.h"
#include "cli/cli.h"

static const char config_text[] =
	"# This file makes the directory a project: paths in pipelines are relative to it, and its state is kept in .cairn/ beside it.\n"
	"# Every line may be left out; flags and CAIRN_* variables win over it.\n"
	"\n"
	"# Left out of directories that are inputs or code, so that what editors, desktops and Python leave there changes no result.\n"
	"ignore: [.DS_Store, Thumbs.db, \"*~\", \".*.swp\", __pycache__]\n"
	"\n"
	"# jobs: 4                  # tasks at once; default: one a cpu\n"
	"# salt: v2                 # part of every key: change it to forget all results at once\n"
	"# store: /data/cairn       # where content is kept; default: .cairn/store\n";

static const char pipeline_text[] =
	"# A first pipeline. `cairn run` runs it, a second `cairn run` has nothing to do; change something and run again.\n"
	"pipeline: hello\n"
	"description: Count the words of a text\n"
	"\n"
	"params:\n"
	"  word: {default: stone, help: the word that is counted}\n"
	"\n"
	"steps:\n"
	"  prepare:\n"
	"    run: printf 'one stone on another, a stone on the path\\n' >${{ outputs.text }}\n"
	"    outputs: {text: text.txt}\n"
	"\n"
	"  count:\n"
	"    run: |\n"
	"      n=$(grep -o -w -e ${{ params.word }} ${{ inputs.text }} | wc -l)\n"
	"      echo \"${{ params.word }} $n\" >${{ outputs.counts }}\n"
	"      echo \"{\\\"count\\\": $n}\" >metrics.json\n"
	"    inputs: {text: \"${{ steps.prepare.outputs.text }}\"}\n"
	"    outputs: {counts: counts.txt}\n"
	"    metrics: metrics.json\n";

struct init {
	struct cli *cli;
	int dir_fd;
	const char *dir; /* as named; for messages */
	unsigned made;
};

static void said(struct init *in, const char *what, bool made)
{
	bool here = strcmp(in->dir, ".") == 0;

	in->made += made;
	if (in->cli->verbosity >= 0)
		cli_printf(in->cli, "%s %s%s%s\n", made ? "made" : "kept", here ? "" : cli_text(in->cli, in->dir), here ? "" : "/", what);
}

static int make_file(struct init *in, const char *name, const char *text, struct err *err)
{
	struct err own = { 0 };

	if (fs_write_atomic_at(in->dir_fd, name, text, strlen(text), 0644, FS_WRITE_NEW, &own) == 0) {
		said(in, name, true);
		return 0;
	}
	if (own.code != ERR_EXISTS) {
		if (err)
			*err = own;
		return -1;
	}
	said(in, name, false);
	return 0;
}

static int make_state(struct init *in, struct err *err)
{
	if (mkdirat(in->dir_fd, ".cairn", 0777) == 0) {
		said(in, ".cairn/", true);
		return 0;
	}
	if (errno != EEXIST)
		return err_errno(err, "cannot make %s/.cairn", in->dir);
	said(in, ".cairn/", false);
	return 0;
}

/* Is there a line that ignores .cairn already? */
static bool ignores_state(const struct str *s)
{
	static const char *const forms[] = { ".cairn", ".cairn/", "/.cairn", "/.cairn/", "**/.cairn", "**/.cairn/" };

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

/* Adds a line at the end: nothing that is there changes. */
static int add_ignore(struct init *in, struct err *err)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	_cleanup_(fd_closep) int fd = openat(in->dir_fd, ".gitignore", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0666);
	bool new_line;

	if (fd < 0)
		return err_errno(err, "cannot write %s/.gitignore", in->dir);
	if (fs_read_file_at(in->dir_fd, ".gitignore", MIB, &s, err) < 0)
		return -1;
	if (s.len && ignores_state(&s)) {
		said(in, ".gitignore", false);
		return 0;
	}
	new_line = s.len && s.s[s.len - 1] != '\n';
	if (fs_write_all(fd, new_line ? "\n.cairn/\n" : ".cairn/\n", new_line ? 9 : 8, err) < 0)
		return err_wrap(err, "%s/.gitignore", in->dir);
	said(in, ".gitignore", true);
	return 0;
}

static int init_project(struct init *in, struct err *err)
{
	if (fs_mkdir_p(in->dir, err) < 0)
		return -1;
	in->dir_fd = open(in->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (in->dir_fd < 0)
		return err_errno(err, "cannot open %s", in->dir);
	if (make_file(in, "cairn.yaml", config_text, err) < 0 || make_file(in, "pipeline.yaml", pipeline_text, err) < 0 || make_state(in, err) < 0)
		return -1;
	return add_ignore(in, err);
}

int cmd_init(struct cli *cli, const struct cli_args *args)
{
	const char *dir = cli_operand(args, 0);
	struct init in = { .cli = cli, .dir_fd = -1, .dir = dir ? dir : "." };
	struct err err = { 0 };
	int r = init_project(&in, &err);

	if (in.dir_fd >= 0)
		close(in.dir_fd);
	if (r < 0)
		return cli_fail(cli, &err);
	if (in.made == 0)
		cli_note(cli, "this was a project already; nothing changed");
	else if (dir)
		cli_note(cli, "next: cd %s && cairn run", cli_text(cli, dir));
	else
		cli_note(cli, "next: cairn run");
	return CLI_OK;
}
