/* `cairn ui`: `cairn serve` for the user at this machine, with a browser. */
#include "base/os/process/process.h"
#include "cli/cli.h"
#include "serve/daemon.h"

extern char **environ;

struct ui {
	struct cli *cli;
	bool opens;
	struct process *browser;
};

static void on_browser_end(void *arg, const struct process_exit *ex)
{
	struct ui *u = arg;

	if (ex->status != 0)
		cli_note(u->cli, "No browser could be opened: open the address yourself.");
	process_free(u->browser);
	u->browser = NULL;
}

/* The token is in the fragment: a browser sends it to nobody, and our page exchanges it. */
static void on_serving(void *arg, struct loop *l, const char *address, const char *once)
{
	struct ui *u = arg;
	const char *url = arena_printf(u->cli->arena, "http://%s/sign-in#%s", address, once);
	const char *const argv[] = { "xdg-open", url, NULL };
	const struct process_spec spec = { .argv = argv,
					   .env = (const char *const *)environ,
					   .cwd = "/",
					   .stdin_fd = -1,
					   .stdout_fd = -1,
					   .stderr_fd = -1,
					   .outlives = true };

	cli_printf(u->cli, "%s\n", url);
	fflush(u->cli->out);
	cli_note(u->cli,
		 "This address signs you in once, within %d minutes. Ctrl-C ends the server.",
		 ACCESS_ONCE_S / 60);
	if (u->opens && process_start(l, &spec, on_browser_end, u, &u->browser, NULL) < 0)
		cli_note(u->cli, "There is no xdg-open here: open the address yourself.");
}

int cmd_ui(struct cli *cli, const struct cli_args *args)
{
	static const char *const here[] = { "." }, *const any[] = { "127.0.0.1:0" };
	const char *display = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
	struct ui u = { .cli = cli };
	struct daemon_options o = { .projects = args->n_operands ? args->operands : here,
				    .n_projects = args->n_operands ? args->n_operands : 1,
				    .drain_ns = 300 * NS_PER_S,
				    .verbosity = cli->verbosity > 0 ? cli->verbosity : -1,
				    .serving = on_serving,
				    .arg = &u };
	struct err err = { 0 };

	u.opens = !cli_flag(args, "no-browser") && ((display && *display) || (wayland && *wayland));
	o.listen = cli_values(args, "listen", cli->arena, &o.n_listen);
	if (!o.n_listen) {
		o.listen = any;
		o.n_listen = 1;
	}
	if (o.n_projects > DAEMON_PROJECTS_MAX || o.n_listen > 1)
		return cli_usage_error(cli, "at most %d projects and one address",
				       DAEMON_PROJECTS_MAX);
	if (!str_has_prefix(o.listen[0], "127.") && !str_has_prefix(o.listen[0], "localhost:") &&
	    !str_has_prefix(o.listen[0], "[::1]:"))
		return cli_usage_error(cli, "`cairn ui` is for this machine only: `cairn serve` "
					    "listens at other addresses");
	return daemon_run(&o, &err) < 0 ? cli_fail(cli, &err) : CLI_OK;
}
