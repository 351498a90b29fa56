// A function whose first successful call is its only one; after an error the next call tries again.
export function once(work) {
  let result = null;
  return () => {
    result ??= work().catch((error) => {
      result = null;
      throw error;
    });
    return result;
  };
}
