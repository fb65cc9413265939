// Holds the view, and requests what the first picture needs while the rest of the page is still
// loading: the overview, and the picture of a fixed range, which does not need the server's clock.

import { begin } from "./api.js";
import { readAddress, Store } from "./view.js";

const { view, ranged } = readAddress(location.search);
export const store = new Store(view);
/** Whether the address names a range. */
export const isRanged = ranged;

begin("overview");
if (view.last === null) begin("view", store.params());
