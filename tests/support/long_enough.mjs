// The result of `attempt(limit)`, where `limit` is `first`, or a multiple of it if the machine was too slow for
// `came(result)`.
export const longEnough = async (attempt, came, first) => {
  let result;
  for (const factor of [1, 6, 36]) {
    result = await attempt(first * factor);
    if (came(result)) break;
  }
  return result;
};
