export * from './generated';
export * from './pending';
export { Problem, signInWanted, type Query } from './request';
