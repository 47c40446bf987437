/* `cairn get`: content out of the store, as the user's own. */
#include <fcntl.h>
#include <unistd.h>
#include "base/fs.h"
#include "cli/what.h"
#include "storage/content.h"

static int to_stdout(struct cli *cli, struct store *s, const struct content_id *id, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	char buf[65536];
	ssize_t n;

	if (id->kind != CONTENT_BLOB)
		return err_set(err, ERR_USAGE, "this is a directory: give -o PATH");
	if (content_verify(s, id, err) < 0 || content_open(s, id, &fd, err) < 0)
		return -1;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		fwrite(buf, 1, (size_t)n, cli->out);
	return n < 0 ? err_errno(err, "cannot read from the store") : 0;
}

static int to_path(struct store *s, const struct content_id *id, const char *path, bool replace, struct err *err)
{
	_cleanup_(freep) char *temp = NULL;

	if (!replace && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, ERR_EXISTS, "%s exists already: give another -o PATH, or --replace", path);
	/* Beside it first: a copy that breaks off leaves what was there. */
	temp = xasprintf("%s.tmp-%d", path, (int)getpid());
	if (content_materialise_at(s, id, false, CONTENT_COPY_WRITABLE, AT_FDCWD, temp, err) < 0) {
		fs_remove_tree(temp, NULL);
		return -1;
	}
	if (replace && fs_remove_tree(path, err) < 0)
		return -1;
	return rename(temp, path) < 0 ? err_errno(err, "cannot make %s", path) : 0;
}

int cmd_get(struct cli *cli, const struct cli_args *args)
{
	const char *path = cli_value(args, "output");
	struct err err = { 0 };
	struct what w;
	struct store *s;
	struct db *db;
	char hex[DIGEST_HEX_MAX];

	if (cli_db(cli, DB_READ, &db, &err) < 0 || what_find(cli, db, cli_operand(args, 0), WHAT_CONTENT, cli_value(args, "run"), &w, &err) < 0 ||
	    cli_store(cli, false, &s, &err) < 0)
		return cli_fail(cli, &err);
	if (path && str_eq(path, "-"))
		return to_stdout(cli, s, &w.id, &err) < 0 ? cli_fail(cli, &err) : CLI_OK;
	if (!path)
		path = w.name;
	if (to_path(s, &w.id, path, cli_flag(args, "replace"), &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		cli_print_json(cli, json_pack("{s:s+, s:o, s:I}", "id", "sha256:", digest_hex(&w.id.digest, hex), "path", json_name(path, strlen(path)), "bytes",
					      (json_int_t)w.id.size_bytes));
	else
		cli_note(cli, "%s", cli_text(cli, path));
	return CLI_OK;
}
