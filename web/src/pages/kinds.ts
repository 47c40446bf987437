// How a file is shown, by its name. What isn't known is bytes to download.

export type Kind =
  | 'text'
  | 'json'
  | 'table'
  | 'image'
  | 'svg'
  | 'page'
  | 'pdf'
  | 'audio'
  | 'video'
  | 'shard'
  | 'notebook'
  | 'unknown';

const BY_END: [RegExp, Kind][] = [
  [/\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i, 'image'],
  [/\.svg$/i, 'svg'],
  [/\.html?$/i, 'page'],
  [/\.pdf$/i, 'pdf'],
  [/\.(wav|mp3|ogg|oga|flac|m4a)$/i, 'audio'],
  [/\.(mp4|webm)$/i, 'video'],
  [/\.(csv|tsv|npy|jsonl|ndjson)$/i, 'table'],
  [/\.(json|geojson)$/i, 'json'],
  [/\.ipynb$/i, 'notebook'],
  [/\.tar$/i, 'shard'],
  [
    /\.(txt|md|log|py|sh|c|h|js|ts|css|ya?ml|toml|ini|cfg|conf|xml|sql|r|tex|rst|diff|patch|env|lock|mk|cmake)$/i,
    'text',
  ],
  [/(^|\/)(README|LICENSE|Makefile|Dockerfile)$/, 'text'],
];

export function kindOf(name: string, type: string | null = null): Kind {
  for (const [end, kind] of BY_END) if (end.test(name)) return kind;
  if (!type) return 'unknown';
  if (type === 'image/svg+xml') return 'svg';
  if (type.startsWith('image/')) return 'image';
  if (type.startsWith('audio/')) return 'audio';
  if (type === 'text/html') return 'page';
  if (type === 'application/pdf') return 'pdf';
  if (type === 'application/json') return 'json';
  if (type === 'text/csv' || type === 'text/tab-separated-values' || type === 'application/x-npy')
    return 'table';
  if (type === 'application/x-tar') return 'shard';
  if (type.startsWith('text/')) return 'text';
  return 'unknown';
}

/** Text that a person can read: no NUL, hardly any control character or broken UTF-8. */
export function looksLikeText(b: Uint8Array): boolean {
  const n = Math.min(b.length, 4096);
  let odd = 0;
  for (let i = 0; i < n; i++) {
    const c = b[i]!;
    if (c === 0) return false;
    if (c < 9 || (c > 13 && c < 27) || (c > 27 && c < 32)) odd++;
  }
  if (odd > n / 50) return false;
  const text = new TextDecoder().decode(b.subarray(0, n));
  return (text.match(/\ufffd/g)?.length ?? 0) <= n / 100 + 1;
}

export function hexDump(b: Uint8Array, from = 0): string {
  const lines: string[] = [];
  for (let i = 0; i < b.length; i += 16) {
    const row = [...b.subarray(i, i + 16)];
    lines.push(
      `${(from + i).toString(16).padStart(8, '0')}  ${row
        .map((c) => c.toString(16).padStart(2, '0'))
        .join(' ')
        .padEnd(
          48,
        )} ${row.map((c) => (c > 31 && c < 127 ? String.fromCharCode(c) : '.')).join('')}`,
    );
  }
  return lines.join('\n');
}
