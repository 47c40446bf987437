// One timer for all that shows "3 min ago" or a running duration. It stands still while nobody looks.

import { signal } from '@preact/signals';

export const now = signal(new Date());

setInterval(() => {
  if (typeof document === 'undefined' || !document.hidden) now.value = new Date();
}, 1000);
