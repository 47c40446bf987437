/* storage/s3/credentials_profile.c — what a profile says: keys, a program to ask, or a role to take. */
#include "storage/s3/credentials_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

#define PROCESS_TIMEOUT_NS (60 * NS_PER_S) /* people type a code of their token */
#define SOURCE_DEPTH_MAX 5		   /* role over role over role */

extern char **environ;

/* --- JSON ------------------------------------------------------------------------------------------------------------- */

static int read_fields(const json_t *j, const char *source, struct credentials *ret, struct err *err)
{
	const char *id, *secret, *token, *session, *expiration;
	int64_t expires_ns = INT64_MAX;

	if (json_get_str(j, "AccessKeyId", &id, err) < 0 || json_get_str(j, "SecretAccessKey", &secret, err) < 0 ||
	    json_get_str_opt(j, "SessionToken", NULL, &session, err) < 0 || json_get_str_opt(j, "Token", session, &token, err) < 0 ||
	    json_get_str_opt(j, "Expiration", NULL, &expiration, err) < 0)
		return -1;
	if (!*id || !*secret)
		return err_set(err, ERR_INVALID, "the key is empty");
	if (expiration && *expiration && text_parse_time(expiration, &expires_ns, NULL) < 0)
		return err_set(err, ERR_INVALID, "`Expiration` is no time");
	credentials_set(ret, id, secret, token, expires_ns, source);
	return 0;
}

int credentials_from_json(const char *what, const char *bytes, size_t n, const char *source, struct credentials *ret, struct err *err)
{
	struct err why = { 0 };
	json_t *j = NULL;
	int r;

	/* The parser's message may quote what it read. */
	if (json_parse(what, bytes, n, &j, &why) < 0 || !json_is_object(j)) {
		json_decref(j);
		return err_set(err, ERR_INVALID, "%s: what it gives isn't a JSON object of credentials", what);
	}
	r = read_fields(j, source, ret, err);
	json_decref(j);
	return r < 0 ? err_wrap(err, "%s", what) : 0;
}

/* --- credential_process -------------------------------------------------------------------------------------------------- */

static int64_t mono_ns(void)
{
	return clock_system()->mono_ns(clock_system());
}

/* Reads until the end of file. -1: too much, or too late. */
static int read_output(int fd, struct str *out, const char **ret_why)
{
	int64_t end = mono_ns() + PROCESS_TIMEOUT_NS;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = end - mono_ns();
		char piece[4096];
		ssize_t n;

		*ret_why = "it didn't end within 60 seconds";
		if (left <= 0 || poll(&p, 1, (int)(left / NS_PER_MS) + 1) == 0)
			return -1;
		n = read(fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? 0 : -1;
		*ret_why = "it prints too much";
		if (out->len + (size_t)n > CREDENTIALS_FILE_MAX)
			return -1;
		str_addn(out, piece, (size_t)n);
	}
}

static int start_shell(const char *command, int out_fd, pid_t *ret, struct err *err)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)command, NULL };
	posix_spawn_file_actions_t a;
	posix_spawnattr_t attr;
	sigset_t none;
	int r;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&a);
	posix_spawn_file_actions_addopen(&a, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&a, out_fd, 1);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	r = posix_spawn(ret, "/bin/sh", &a, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&a);
	posix_spawnattr_destroy(&attr);
	errno = r;
	return r ? err_errno(err, "credential_process: cannot start /bin/sh") : 0;
}

/* ECHILD: the engine's reaper was faster; then only what it printed counts. */
static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return status;
}

int credentials_from_process(const struct credentials_search *s, const char *command, struct credentials *ret, struct err *err)
{
	_cleanup_(fd_closep) int in = -1;
	struct str out = { 0 };
	const char *why;
	int fds[2], status, r = -1;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, "credential_process: no pipe");
	in = fds[0];
	if (start_shell(command, fds[1], &pid, err) < 0) {
		close(fds[1]);
		return -1;
	}
	close(fds[1]);
	if (read_output(in, &out, &why) < 0) {
		kill(-pid, SIGKILL);
		wait_for(pid);
		err_set(err, ERR_INVALID, "credential_process of the profile `%s`: %s", s->profile, why);
	} else if ((status = wait_for(pid)) != 0) {
		err_set(err, ERR_INVALID, "credential_process of the profile `%s` failed with exit code %d: run it by hand to see why", s->profile,
			WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	} else {
		r = credentials_from_json("credential_process", out.s ? out.s : "", out.len, "credential_process", ret, err);
	}
	if (out.s)
		explicit_bzero(out.s, out.cap);
	str_deinit(&out);
	return r;
}

/* --- profiles -------------------------------------------------------------------------------------------------------------- */

static int from_keys(const struct ini *ini, const char *profile, struct credentials *ret, struct err *err)
{
	const char *id = ini_get(ini, profile, "aws_access_key_id"), *secret = ini_get(ini, profile, "aws_secret_access_key");

	if (!id && !secret)
		return 1;
	if (!id || !secret)
		return err_set(err, ERR_INVALID, "the profile `%s` has only one of aws_access_key_id and aws_secret_access_key", profile);
	credentials_set(ret, id, secret, ini_get(ini, profile, "aws_session_token"), INT64_MAX, "a profile");
	return 0;
}

static int from_source(const struct credentials_search *s, const char *source, struct credentials *ret, struct err *err)
{
	if (str_eq(source, "Ec2InstanceMetadata"))
		return credentials_from_instance(s, ret, err);
	if (str_eq(source, "EcsContainer"))
		return credentials_from_container(s, ret, err);
	if (str_eq(source, "Environment") && credentials_env("AWS_ACCESS_KEY_ID") && credentials_env("AWS_SECRET_ACCESS_KEY")) {
		credentials_set(ret, credentials_env("AWS_ACCESS_KEY_ID"), credentials_env("AWS_SECRET_ACCESS_KEY"), credentials_env("AWS_SESSION_TOKEN"),
				INT64_MAX, "the environment");
		return 0;
	}
	return 1;
}

static int from_role(const struct credentials_search *s, const struct ini *ini, const char *profile, struct credentials *ret, struct err *err)
{
	const char *role = ini_get(ini, profile, "role_arn"), *file = ini_get(ini, profile, "web_identity_token_file");
	const char *by_profile = ini_get(ini, profile, "source_profile"), *by_source = ini_get(ini, profile, "credential_source");
	struct credentials_search next = *s;
	struct credentials by = { 0 };
	int r;

	if (file)
		return credentials_from_web_identity(s, file, role, ini_get(ini, profile, "role_session_name"), ret, err);
	if (!by_profile && !by_source)
		return err_set(err, ERR_INVALID, "the profile `%s` has role_arn, but no source_profile, credential_source or web_identity_token_file", profile);
	if (++next.depth > SOURCE_DEPTH_MAX)
		return err_set(err, ERR_INVALID, "the profile `%s`: source_profile goes in a circle", profile);
	if (by_profile && str_eq(by_profile, profile))
		r = from_keys(ini, profile, &by, err);
	else if (by_profile)
		r = credentials_from_profile(&next, ini, by_profile, &by, err);
	else
		r = from_source(s, by_source, &by, err);
	if (r == 1)
		return err_set(err, ERR_INVALID, "the profile `%s` takes its role from %s `%s`, which has no credentials", profile,
			       by_profile ? "the profile" : "credential_source", by_profile ? by_profile : by_source);
	if (r == 0)
		r = credentials_assume_role(s, ini, profile, &by, ret, err);
	credentials_deinit(&by);
	return r;
}

int credentials_from_profile(const struct credentials_search *s, const struct ini *ini, const char *profile, struct credentials *ret, struct err *err)
{
	const char *command = ini_get(ini, profile, "credential_process");

	if (ini_get(ini, profile, "role_arn"))
		return from_role(s, ini, profile, ret, err);
	if (ini_get(ini, profile, "aws_access_key_id") || ini_get(ini, profile, "aws_secret_access_key"))
		return from_keys(ini, profile, ret, err);
	if (command)
		return credentials_from_process(s, command, ret, err);
	if (ini_get(ini, profile, "sso_session") || ini_get(ini, profile, "sso_start_url"))
		return err_set(err, ERR_INVALID,
			       "the profile `%s` signs in by SSO: give it `credential_process = aws configure export-credentials --profile %s` in a profile of its own",
			       profile, profile);
	return 1;
}
