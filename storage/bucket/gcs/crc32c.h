/* storage/bucket/gcs/crc32c.h — CRC-32C (Castagnoli, RFC 3720 appendix B.4): Google Cloud Storage's
 * checksum of every object. */
#ifndef CAIRN_STORAGE_BUCKET_GCS_CRC32C_H
#define CAIRN_STORAGE_BUCKET_GCS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 at the start) with n bytes. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);
/* As the service writes it: base64 of the four bytes, big endian. out has 9 bytes. */
void crc32c_base64(uint32_t crc, char out[9]);

#endif
