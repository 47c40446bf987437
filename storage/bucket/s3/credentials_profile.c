/* storage/bucket/s3/credentials_profile.c — credentials that a profile names: keys, a program to
 * run, or a role to assume.
 *
 * role_arn comes first: the role is assumed with a web identity's token, or with the credentials of
 * another profile or source, which may need a role themselves (SOURCE_DEPTH_MAX). Then keys of the
 * profile, then its credential_process. A profile with none of these returns 1.
 *
 * credentials_from_json() is here because a program's answer and the metadata services' have the
 * same form. The parser's messages are not passed on: they may quote a secret.
 */
#include "storage/bucket/s3/credentials_internal.h"

#include "base/mem.h"
#include "base/os/process/command.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "base/time/clock.h"

#define PROCESS_TIMEOUT_NS (60 * NS_PER_S) /* a person may have to type a code */
#define SOURCE_DEPTH_MAX   5               /* roles assumed by roles */

/* JSON. */

static int read_fields(const json_t *j, const char *source, struct credentials *ret,
		       struct err *err)
{
	const char *id, *secret, *token, *session, *expiration;
	int64_t expires_ns = INT64_MAX;

	if (json_get_str(j, "AccessKeyId", &id, err) < 0 ||
	    json_get_str(j, "SecretAccessKey", &secret, err) < 0 ||
	    json_get_str_opt(j, "SessionToken", NULL, &session, err) < 0 ||
	    json_get_str_opt(j, "Token", session, &token, err) < 0 ||
	    json_get_str_opt(j, "Expiration", NULL, &expiration, err) < 0)
		return -1;
	if (!*id || !*secret)
		return err_set(err, ERR_INVALID, "the key is empty");
	if (expiration && *expiration && text_parse_time(expiration, &expires_ns, NULL) < 0)
		return err_set(err, ERR_INVALID, "`Expiration` is no time");
	credentials_set(ret, id, secret, token, expires_ns, source);
	return 0;
}

int credentials_from_json(const char *what, const char *bytes, size_t n, const char *source,
			  struct credentials *ret, struct err *err)
{
	struct err why = { 0 };
	json_t *j = NULL;
	int r;

	/* Not the parser's message: it may quote a secret. */
	if (json_parse(what, bytes, n, &j, &why) < 0 || !json_is_object(j)) {
		json_decref(j);
		return err_set(err, ERR_INVALID,
			       "%s: what it gives isn't a JSON object of credentials", what);
	}
	r = read_fields(j, source, ret, err);
	json_decref(j);
	return r < 0 ? err_wrap(err, "%s", what) : 0;
}

/* Credential_process. */

static int credentials_from_process(const char *profile, const char *command,
				    struct credentials *ret, struct err *err)
{
	const char *const argv[] = { "/bin/sh", "-c", command, NULL };
	const struct command c = { .argv = argv,
				   .timeout_ns = PROCESS_TIMEOUT_NS,
				   .max_bytes = CREDENTIALS_FILE_MAX };
	struct err why = { 0 };
	struct str out = { 0 };
	int status, r = -1;

	if (command_output(&c, &out, &status, &why) < 0)
		err_set(err, ERR_INVALID, "credential_process of the profile `%s`: %s", profile,
			why.msg);
	else if (status != 0)
		err_set(err, ERR_INVALID,
			"credential_process of the profile `%s` failed with exit code %d: run it "
			"by hand to see why",
			profile, status);
	else
		r = credentials_from_json("credential_process", out.s ? out.s : "", out.len,
					  "credential_process", ret, err);
	str_wipe(&out);
	return r;
}

/* Profiles. */

static int from_keys(const struct ini *ini, const char *profile, struct credentials *ret,
		     struct err *err)
{
	const char *id = ini_get(ini, profile, "aws_access_key_id"),
		   *secret = ini_get(ini, profile, "aws_secret_access_key");

	if (!id && !secret)
		return 1;
	if (!id || !secret)
		return err_set(err, ERR_INVALID,
			       "the profile `%s` has only one of aws_access_key_id and "
			       "aws_secret_access_key",
			       profile);
	credentials_set(ret, id, secret, ini_get(ini, profile, "aws_session_token"), INT64_MAX,
			"a profile");
	return 0;
}

static int from_source(const struct credentials_search *s, const char *source,
		       struct credentials *ret, struct err *err)
{
	if (str_eq(source, "Ec2InstanceMetadata"))
		return credentials_from_instance(s, ret, err);
	if (str_eq(source, "EcsContainer"))
		return credentials_from_container(s, ret, err);
	if (str_eq(source, "Environment") && credentials_env("AWS_ACCESS_KEY_ID") &&
	    credentials_env("AWS_SECRET_ACCESS_KEY")) {
		credentials_set(ret, credentials_env("AWS_ACCESS_KEY_ID"),
				credentials_env("AWS_SECRET_ACCESS_KEY"),
				credentials_env("AWS_SESSION_TOKEN"), INT64_MAX, "the environment");
		return 0;
	}
	return 1;
}

static int from_role(const struct credentials_search *s, const struct ini *ini, const char *profile,
		     struct credentials *ret, struct err *err)
{
	const char *role = ini_get(ini, profile, "role_arn"),
		   *file = ini_get(ini, profile, "web_identity_token_file");
	const char *by_profile = ini_get(ini, profile, "source_profile"),
		   *by_source = ini_get(ini, profile, "credential_source");
	struct credentials_search next = *s;
	struct credentials by = { 0 };
	int r;

	if (file)
		return credentials_from_web_identity(
			s, file, role, ini_get(ini, profile, "role_session_name"), ret, err);
	if (!by_profile && !by_source)
		return err_set(err, ERR_INVALID,
			       "the profile `%s` has role_arn, but no source_profile, "
			       "credential_source or web_identity_token_file",
			       profile);
	if (++next.depth > SOURCE_DEPTH_MAX)
		return err_set(err, ERR_INVALID,
			       "the profile `%s`: source_profile goes in a circle", profile);
	if (by_profile && str_eq(by_profile, profile))
		r = from_keys(ini, profile, &by, err);
	else if (by_profile)
		r = credentials_from_profile(&next, ini, by_profile, &by, err);
	else
		r = from_source(s, by_source, &by, err);
	if (r == 1)
		return err_set(
			err, ERR_INVALID,
			"the profile `%s` takes its role from %s `%s`, which has no credentials",
			profile, by_profile ? "the profile" : "credential_source",
			by_profile ? by_profile : by_source);
	if (r == 0)
		r = credentials_assume_role(s, ini, profile, &by, ret, err);
	credentials_deinit(&by);
	return r;
}

int credentials_from_profile(const struct credentials_search *s, const struct ini *ini,
			     const char *profile, struct credentials *ret, struct err *err)
{
	const char *command = ini_get(ini, profile, "credential_process");

	if (ini_get(ini, profile, "role_arn"))
		return from_role(s, ini, profile, ret, err);
	if (ini_get(ini, profile, "aws_access_key_id") ||
	    ini_get(ini, profile, "aws_secret_access_key"))
		return from_keys(ini, profile, ret, err);
	if (command)
		return credentials_from_process(profile, command, ret, err);
	if (ini_get(ini, profile, "sso_session") || ini_get(ini, profile, "sso_start_url"))
		return err_set(
			err, ERR_INVALID,
			"the profile `%s` signs in by SSO: give it `credential_process = aws "
			"configure export-credentials --profile %s` in a profile of its own",
			profile, profile);
	return 1;
}
