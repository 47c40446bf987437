#include "storage/bucket_internal.h"

int bucket_gcs_open(const char *uri, const struct bucket_options *o, struct bucket **ret, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "%s: Google Cloud Storage is not in this build", uri);
}
