// Whether this is the page of a report: one file, whose answers are in it, opened from anywhere.

export const REPORT = import.meta.env.MODE === 'report';
