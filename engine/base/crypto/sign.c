#include "base/crypto/sign.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/crypto/base64.h"
#include "base/mem.h"
#include "base/os/fs.h"

#define PREFIX         "ed25519:"
#define FILE_BYTES_MAX 4096

struct sign_key {
	EVP_PKEY *pkey;
	uint8_t public_key[SIGN_KEY_BYTES];
};

/* Without this, libcrypto would ask on the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	return -1;
}

static int read_key(int fd, const char *path, EVP_PKEY **ret, struct err *err)
{
	char text[FILE_BYTES_MAX];
	ssize_t n = read(fd, text, sizeof(text));
	BIO *bio = n > 0 ? BIO_new_mem_buf(text, (int)n) : NULL;

	*ret = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
	BIO_free(bio);
	OPENSSL_cleanse(text, sizeof(text));
	if (*ret && EVP_PKEY_get_base_id(*ret) == EVP_PKEY_ED25519)
		return 0;
	EVP_PKEY_free(*ret);
	return err_set(err, ERR_INVALID,
		       "%s is no Ed25519 key in PEM without a passphrase: `openssl genpkey "
		       "-algorithm ed25519` makes one",
		       path);
}

int sign_key_load(const char *path, struct sign_key **ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t n = SIGN_KEY_BYTES;
	struct sign_key *k;
	struct stat st;
	EVP_PKEY *pkey;
	int got;

	if (fd < 0 && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "there is no %s", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(err, ERR_INVALID,
			       "%s must be your own file, which nobody else may read: chmod 600 %s",
			       path, path);
	if (read_key(fd, path, &pkey, err) < 0)
		return -1;
	k = xcalloc(1, sizeof(*k));
	k->pkey = pkey;
	got = EVP_PKEY_get_raw_public_key(pkey, k->public_key, &n);
	assert(got == 1 && n == SIGN_KEY_BYTES);
	*ret = k;
	return 0;
}

void sign_key_free(struct sign_key *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->pkey);
	free(k);
}

const uint8_t *sign_key_public(const struct sign_key *k)
{
	return k->public_key;
}

void sign_bytes(const struct sign_key *k, const void *bytes, size_t n,
		uint8_t ret[SIGN_SIGNATURE_BYTES])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t len = SIGN_SIGNATURE_BYTES;
	int good;

	if (!ctx)
		mem_die(0);
	good = EVP_DigestSignInit(ctx, NULL, NULL, NULL, k->pkey) == 1 &&
	       EVP_DigestSign(ctx, ret, &len, bytes, n) == 1;
	EVP_MD_CTX_free(ctx);
	assert(good && len == SIGN_SIGNATURE_BYTES);
}

bool sign_verify(const uint8_t public_key[SIGN_KEY_BYTES], const void *bytes, size_t n,
		 const uint8_t signature[SIGN_SIGNATURE_BYTES])
{
	EVP_PKEY *pkey =
		EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, SIGN_KEY_BYTES);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good = pkey && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) == 1 &&
		    EVP_DigestVerify(ctx, signature, SIGN_SIGNATURE_BYTES, bytes, n) == 1;

	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	return good;
}

void sign_add_public(struct str *out, const uint8_t public_key[SIGN_KEY_BYTES])
{
	str_add(out, PREFIX);
	base64_add(out, public_key, SIGN_KEY_BYTES);
}

bool sign_parse_public(const char *text, size_t n, uint8_t ret[SIGN_KEY_BYTES])
{
	_cleanup_(str_deinit) struct str raw = { 0 };
	size_t prefix = strlen(PREFIX);

	if (n < prefix || memcmp(text, PREFIX, prefix) != 0 ||
	    base64_decode(&raw, text + prefix, n - prefix, NULL) < 0 || raw.len != SIGN_KEY_BYTES)
		return false;
	memcpy(ret, raw.s, SIGN_KEY_BYTES);
	return true;
}
