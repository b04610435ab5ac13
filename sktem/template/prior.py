"""Prior of the parameters of deformable templates."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from sktem.choices import KnownParametersMixin, check_number
from sktem.links import DocumentationLinkMixin
from sktem.template.model.priors import TemplatePriors

__all__ = ["DeformableTemplatePrior"]


class PriorDefaults(NamedTuple):
    """Values of a prior for "auto", and the noise that is always left.

    Attributes
    ----------
    prior_strength : float
        Weight of the prior on deformations in images, chosen by the likelihood of other
        training images of handwritten digits.
    noise_prior_scale, noise_prior_strength : float
        Noise that is expected, and its weight.
    noise_floor : float
        Least noise variance, in variances of the pixels.
    """

    prior_strength: float = 50.0
    noise_prior_scale: float = 0.5
    noise_prior_strength: float = 1.0
    noise_floor: float = 1e-6


DEFAULTS = PriorDefaults()


class DeformableTemplatePrior(
    DocumentationLinkMixin, KnownParametersMixin, BaseEstimator
):
    """Prior of templates: size of deformations, values of a template, and noise.

    In a parameter search over estimators with ``prior=DeformableTemplatePrior()``, the
    names are ``prior__prior_strength`` and so on.

    Parameters
    ----------
    prior_strength : float or "auto", default="auto"
        Weight of the prior on deformations, in images; 0 turns it off. "auto" is 50.
        With few images, a strong prior prevents wild deformations. In classifiers
        "auto" is 20 for every image of a class and template, at least 400, because
        classes are separated best if their deformations have equal costs.
    template_prior : float or None, default=0.5
        Prior standard deviation of the template's values, in standard deviations of the
        pixels; None turns the prior off. It determines the template where no pixel
        does.
    noise_prior_scale : float or "auto", default="auto"
        Noise expected by the prior, in standard deviations of the pixels; "auto" is
        0.5, and 0.3 in classifiers.
    noise_prior_strength : float or "auto", default="auto"
        Weight of that prior, in images; 0 turns it off. It prevents templates of few
        images from fitting them ever more closely. "auto" is 1.
    weight_concentration : float, default=1.0
        Number of images that a Dirichlet prior adds to every component.

    References
    ----------
    S. Allassonniere, Y. Amit and A. Trouve, Towards a coherent statistical framework
    for dense deformable template estimation, JRSS B 69, 2007.

    Examples
    --------
    >>> from sktem import DeformableTemplateEstimator, DeformableTemplatePrior
    >>> prior = DeformableTemplatePrior(prior_strength=200.0)
    >>> DeformableTemplateEstimator(prior=prior).get_params()["prior__prior_strength"]
    200.0
    """

    def __init__(
        self,
        *,
        prior_strength="auto",
        template_prior=0.5,
        noise_prior_scale="auto",
        noise_prior_strength="auto",
        weight_concentration=1.0,
    ):
        self.prior_strength = prior_strength
        self.template_prior = template_prior
        self.noise_prior_scale = noise_prior_scale
        self.noise_prior_strength = noise_prior_strength
        self.weight_concentration = weight_concentration

    def check(self):
        """Raise if a parameter is out of its range."""
        for name, strict in (
            ("prior_strength", False),
            ("noise_prior_scale", True),
            ("noise_prior_strength", False),
        ):
            value = getattr(self, name)
            if value != "auto" if isinstance(value, str) else True:
                check_number(name, value, Real, 0, strict=strict)
        if self.template_prior is not None:
            check_number("template_prior", self.template_prior, Real, 0, strict=True)
        check_number("weight_concentration", self.weight_concentration, Real, 0)

    def with_defaults(self, **values):
        """Return a prior with other values in place of "auto".

        Parameters
        ----------
        **values : dict
            Values by the names of the parameters.

        Returns
        -------
        DeformableTemplatePrior
            The prior.
        """
        parameters = self.get_params(deep=False)
        free = {k: v for k, v in values.items() if isinstance(parameters[k], str)}
        return type(self)(**{**parameters, **free})

    def resolved(self, grid, deformation_scale) -> TemplatePriors:
        """Return the priors of a model with a geometry.

        Parameters
        ----------
        grid : ImageGrid
            Geometry.
        deformation_scale : float
            Displacements that are expected, in pixels.

        Returns
        -------
        TemplatePriors
            Priors in units of the model.
        """
        defaults = DEFAULTS._asdict()
        noise_floor = defaults.pop("noise_floor")
        prior = self.with_defaults(**defaults)
        off = prior.template_prior is None
        return TemplatePriors(
            deformation_scale=float(deformation_scale),
            strength=float(prior.prior_strength),
            template_scale=np.inf if off else float(prior.template_prior),
            noise_scale=float(prior.noise_prior_scale),
            noise_strength=float(prior.noise_prior_strength) * grid.n_pixels,
            weight_concentration=float(prior.weight_concentration),
            noise_floor=noise_floor,
        )
